import io
import json

import numpy as np
import pytest
from rich.console import Console

import metasched as ms
from helpers import make_tasks
from metasched.dependence import independence_test
from metasched.errors import ConfigError
from metasched.experiments import diagnosis
from metasched.learners.diagnose import diagnose
from metasched.report import tables


@pytest.fixture(scope="module")
def result():
    return diagnose(make_tasks(), learner=ms.Joint(batch_size=3), permutations=99, steps=5)


def test_the_table_fits_80_columns_with_long_names(result):
    names = ["aquatic_mammals", "medium_mammals", "small_mammals"]
    tasks = result.tasks.tasks
    for task, name in zip(tasks, names, strict=True):
        object.__setattr__(task, "name", name)
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(diagnosis.order_table(result))
    text = console.export_text()
    assert all(name in text for name in names)
    assert "…" not in text


def test_a_certain_successor_is_a_full_block_and_never_is_blank():
    lines = diagnosis.heat_map(independence_test([0, 1, 0, 1], 3, permutations=9), ("a", "b", "c"))
    assert lines == ["a   ██  ", "b ██    ", "c       "]


def test_maps_stand_side_by_side_as_far_as_they_fit(result):
    assert max(map(len, diagnosis.heat_maps(result, 60).splitlines())) <= 60
    assert len(diagnosis.heat_maps(result, 20).splitlines()) > len(diagnosis.heat_maps(result, 200).splitlines())


def test_everything_survives_json(result):
    parsed = json.loads(json.dumps(diagnosis.diagnosis_json(result)))
    assert parsed["recommendation"] == result.recommendation
    assert parsed["tasks"][0]["p_value"] == result.orders[0].p_value
    assert np.shape(parsed["association"]["p_value"]) == (3, 3)
    assert len(parsed["stationarity"]["exponent"]) == 3


@pytest.mark.parametrize(("p", "text"), [(0.0, "0"), (0.5, "0.500"), (0.00012, "1e-04"), (1.0, "1.000")])
def test_p_values_are_short(p, text):
    assert str(tables.p_value(p)) == text


class TestCharts:
    @pytest.fixture(autouse=True)
    def _needs_altair(self):
        pytest.importorskip("altair")
        pytest.importorskip("vl_convert")

    @pytest.mark.parametrize(("suffix", "start"), [(".svg", b"<svg"), (".png", b"\x89PNG"), (".pdf", b"%PDF")])
    def test_are_written_in_the_format_of_the_name(self, result, tmp_path, suffix, start):
        path = tmp_path / "folder" / f"chart{suffix}"
        diagnosis.save_chart(diagnosis.transition_chart(result), path)
        assert path.read_bytes().startswith(start)

    def test_another_format_is_refused(self, tmp_path):
        with pytest.raises(ConfigError, match=r"cannot write a chart as '\.docx'"):
            diagnosis.check_format(tmp_path / "chart.docx")
