import made_up_results as made
from metasched.report.page import make


class TestOrderings:
    def cell(self, **levels):
        return made.plain_cell(
            {name: [(0.1, 0.1, level + 0.001 * seed) for seed in range(6)] for name, level in levels.items()},
            regime="paper",
            variant="B=20",
        )

    def test_true_false_and_the_chain(self, tmp_path):
        (sheet,) = make("orderings", made.loaded(tmp_path, self.cell(mdp=0.7, gittins=0.6, ucb=0.65, cyclic=0.5)))
        found = dict(zip(made.column(sheet, "claim"), made.column(sheet, "by accuracy"), strict=True))
        assert found == {
            "mdp ≥ gittins": "true",
            "gittins ≥ ucb": "false",
            "ucb ≥ cyclic": "true",
            "mdp ≥ gittins ≥ ucb ≥ cyclic": "false",
        }

    def test_noise_shows_nothing(self, tmp_path):
        ups = {"mdp": 0.05, "cyclic": 0.0}
        content = made.plain_cell(
            {name: [(0.1, 0.1, 0.6 + up * (-1) ** seed) for seed in range(6)] for name, up in ups.items()},
            regime="paper",
        )
        (sheet,) = make("orderings", made.loaded(tmp_path, content))
        assert made.column(sheet, "by accuracy") == ["not shown"]

    def test_the_papers_own_numbers_break_its_claim_for_weather(self, everything):
        (sheet,) = make("orderings", everything)
        told = {(str(row[0]), str(row[1])): row[-1] for row in sheet.rows}
        assert told["weather, all 6 cells (simulated)", "mdp ≥ gittins"] == "false in UBOT, Z100"
        assert told["weather, V850 (simulated)", "ucb ≥ cyclic"] == "false"
        assert told["cifar, own heads", "gittins ≥ ucb"] == "true"
