"""What a reader sees beside the axes, taken from the drawn picture."""

import re

import numpy as np
import pytest

from metasched.report import plots
from metasched.report.palette import stroke

pytest.importorskip("altair")
convert = pytest.importorskip("vl_convert")


def ticks(plot, axis="x"):
    """Labels of an axis as (place in pixels, text)."""
    spec = plot.chart.properties(width=300).to_dict(validate=False) | {"datasets": plot.data}
    svg = convert.vegalite_to_svg(spec)
    start = svg.index(f'aria-label="{axis.upper()}-axis')
    group = svg[start : svg.index("role-axis-title", start)]
    labels = group[group.index("role-axis-label") :]
    found = re.findall(r"translate\(([-\d.]+),([-\d.]+)\)[^>]*>([^<]+)</text>", labels)
    return [(float(x if axis == "x" else y), text) for x, y, text in found]


def number(text):
    return float(text.replace(",", "").replace("\u2212", "-"))


def assert_labels_lie_where_they_say(labels):
    places, values = [place for place, _ in labels], [number(text) for _, text in labels]
    assert len(set(values)) == len(values) >= 3
    line = np.polyfit(places, values, 1)
    np.testing.assert_allclose(np.polyval(line, places), values, atol=np.ptp(values) / 100)


ENDS = [7.5, 40, 900, 1_200, 9_000, 12_345, 2_400_000]


@pytest.mark.parametrize("end", ENDS)
def test_rows_drawn_beside_a_schedule_are_not_rounded(end):
    sources = [plots.Share(name, np.full(4, 0.5)) for name in ("kenya", "peru")]
    assert_labels_lie_where_they_say(ticks(plots.shares("cell", sources, end, "#000")))


@pytest.mark.parametrize("end", ENDS)
def test_rows_drawn_beside_curves_are_not_rounded(end):
    points = [{"name": "uniform", "x": end * part, "y": 0.5 + part / 1000} for part in (0.1, 0.5, 1.0)]
    plot = plots.lines("cell", points, [stroke("uniform")], "source rows drawn", "test accuracy")
    assert_labels_lie_where_they_say(ticks(plot))
    assert_labels_lie_where_they_say(ticks(plot, "y"))


@pytest.mark.parametrize("size", [0.004, 0.013, 0.12, 0.6])
def test_small_differences_have_labels_of_their_own(size):
    row = {"label": "a", "name": "thompson", "value": size, "low": -size / 2, "high": 1.5 * size}
    plot = plots.differences("cell", [{**row, "shown": True, "words": "better"}], [stroke("thompson")], "less uniform")
    assert_labels_lie_where_they_say(ticks(plot))
