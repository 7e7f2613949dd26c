"""Colours that can be told apart, and what a reader sees beside the axes, taken from the drawn picture."""

import itertools
import re

import numpy as np
import pytest

import small_sets
from metasched.experiments.methods import paper_methods, source_methods
from metasched.report import plots
from metasched.report.plots import COLOURS, FINAL, GREY, IN_ORDER, OURS, in_order, stroke

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


LIGHT, DARK = "#ffffff", "#14171c"


def linear(colour):
    parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(first, second):
    """WCAG 2: (L₁ + 0.05)/(L₂ + 0.05)."""
    weights = [0.2126, 0.7152, 0.0722]
    dark, light = sorted([float(linear(first) @ weights), float(linear(second) @ weights)])
    return (light + 0.05) / (dark + 0.05)


def lab(rgb):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    f = np.cbrt(np.maximum(xyz / [0.9505, 1, 1.089], 1e-6))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado, Oliveira, Fernandes: A physiologically-based model for simulation of color vision deficiency, 2009
DEFICIENCIES = {
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


@pytest.mark.parametrize("colour", sorted({*COLOURS.values(), GREY, OURS, FINAL, *IN_ORDER}))
def test_every_name_can_be_read_on_light_pages_and_every_line_is_seen_on_dark_ones(colour):
    assert contrast(colour, LIGHT) >= 4.5
    assert contrast(colour, DARK) >= 3


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_the_papers_schedulers_are_told_apart_with_any_colour_vision(deficiency):
    seen = {
        name: lab(np.clip(np.array(DEFICIENCIES[deficiency]) @ linear(COLOURS[name]), 0, 1))
        for name in ("cyclic", "ucb", "gittins", "mdp")
    }
    for first, second in itertools.combinations(seen, 2):
        assert np.linalg.norm(seen[first] - seen[second]) > 15, (first, second)


def test_a_variant_has_the_hue_of_its_scheduler_and_dashes_of_its_own():
    family = [stroke(name) for name in ("ucb", "ucb-gain", "ucb-gain+abstain", "ucb-refresh")]
    assert len({line.colour for line in family}) == 1
    assert len({line.dash for line in family}) == len(family)


def test_colours_are_told_apart_and_none_looks_like_the_grey_of_the_others():
    for first, second in itertools.combinations({*COLOURS.values(), GREY}, 2):
        assert np.linalg.norm(lab(linear(first)) - lab(linear(second))) > 30, (first, second)


@pytest.mark.parametrize("methods", [paper_methods, source_methods])
def test_no_two_methods_of_an_experiment_look_the_same_but_for_grey_ones_and_single_tasks(methods):
    names = [method.name for method in methods(small_sets.build()) if not method.name.startswith("single:")]
    lines = [stroke(name)[1:] for name in names if stroke(name).colour != GREY]
    assert len(lines) >= 6
    assert len(set(lines)) == len(lines)


@pytest.mark.parametrize("name", ["lottery", "exp3", "ucb (batch_size 5)", "uniformly"])
def test_a_method_without_a_colour_of_its_own_is_grey(name):
    assert stroke(name) == (name, GREY, ())


def test_twenty_classes_are_told_apart():
    lines = in_order([str(number) for number in range(20)])
    assert len({(line.colour, line.dash) for line in lines}) == 20
