"""Tables of what only experiments know, on results whose numbers are known."""

import pytest

import made_up_results as made
from metasched.report.outputs import UnavailableError
from metasched.report.page import make


class TestUsefulDraws:
    """Two tasks of four are useful; 20 updates of 10 batches, in which ucb turns to them after half."""

    EARLY, LATE = (2, 3, 3, 2, 0), (5, 1, 1, 3, 0)

    def runs(self, useful=("a", "d"), schedule=(*[EARLY] * 10, *[LATE] * 10)):
        about = made.about(tasks=("a", "b", "c", "d"), useful=useful)
        return [
            made.run("ucb", 0, about=about, schedule=schedule),
            made.run("ucb", 1, about=about, schedule=schedule[::-1]),
            made.run("target-only", about=about),
        ]

    def test_are_shares_of_batches_in_parts_of_the_run_mean_over_seeds(self, tmp_path):
        (table,) = make("useful-draws", made.loaded(tmp_path, self.runs()[::2]))
        (row,) = table.rows
        assert [str(value) for value in row[1:]] == ["ucb", "40%", "40%", "80%", "2 of 4"]
        (table,) = make("useful-draws", made.loaded(tmp_path, self.runs()))
        assert [str(value) for value in table.rows[0][2:5]] == ["60%", "60%", "60%"]

    def test_abstaining_is_no_draw(self, tmp_path):
        runs = self.runs(schedule=((1, 1, 0, 0, 8),) * 4)[:1]
        (table,) = make("useful-draws", made.loaded(tmp_path, runs))
        assert made.column(table, "first quarter") == ["50%"]

    def test_nobody_knows_which_are_useful(self, tmp_path):
        with pytest.raises(UnavailableError, match="names the sources known to be useful"):
            make("useful-draws", made.loaded(tmp_path, self.runs(useful=())))

    def test_earlier_runs_of_a_cell_that_do_not_say_are_still_compared(self, tmp_path):
        old = made.run("uniform", about=made.about(tasks=("a", "b", "c", "d")))
        results = made.loaded(tmp_path, [old, *self.runs()])
        assert results.faults == ()
        assert results.cells[0].about.useful == ("a", "d")
