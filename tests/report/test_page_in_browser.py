"""The page as a person meets it: in a real browser, offline, on a phone, in the dark, by keyboard, on paper."""

import json

import pytest

import browser
import made_up_results as made
from metasched.report import page
from metasched.report.results import load

for module in ("altair", "jinja2", "vl_convert", "websocket"):
    pytest.importorskip(module)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browser.find() is None, reason="needs chromium on the PATH"),
]


@pytest.fixture(scope="module")
def new_tab():
    with browser.started() as new_tab:
        yield new_tab


@pytest.fixture(scope="module")
def tab(report, new_tab, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page.render(report, "page_files"), encoding="utf-8")
    tab = new_tab()
    tab.resize(1280)
    tab.open(path)
    return tab


@pytest.fixture(autouse=True)
def _desktop_by_day(tab):
    tab.resize(1280)
    tab.colours("light")


def test_draws_every_chart_logs_no_error_and_asks_the_network_for_nothing(tab, report):
    panels = sum(len(figure.panels) for figure in report.figures)
    assert tab.evaluate("Number(document.documentElement.dataset.charts)") == panels
    drawn = (
        "[...document.querySelectorAll('.chart')].filter((c) => c.querySelectorAll('svg path, svg rect').length > 3)"
    )
    assert tab.evaluate(f"{drawn}.length") == panels
    assert tab.errors() == []
    assert [address for address in tab.requests() if not address.startswith("file:")] == []
    assert len(tab.requests()) == 1


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_never_scrolls_sideways(tab, width):
    tab.resize(width, 780, phone=width < 700)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    widest = "Math.max(...[...document.querySelectorAll('.chart svg')].map((s) => s.getBoundingClientRect().right))"
    assert tab.evaluate(widest) <= width


def test_the_dark_has_light_text_on_a_dark_page_in_charts_too(tab):
    colour = "getComputedStyle({}).{}".format
    light = tab.evaluate(colour("document.querySelector('.chart .role-axis-title text')", "fill"))
    tab.colours("dark")
    assert brightness(tab.evaluate(colour("document.body", "backgroundColor"))) < 40
    assert brightness(tab.evaluate(colour("document.body", "color"))) > 200
    dark = tab.evaluate(colour("document.querySelector('.chart .role-axis-title text')", "fill"))
    assert brightness(light) < 110
    assert brightness(dark) > 150


def brightness(colour):
    return sum(float(part) for part in colour.strip("rgba()").split(",")[:3]) / 3


class TestTables:
    FIRST = "document.querySelector('#summary table')"

    def column(self, tab, place):
        return tab.evaluate(f"[...{self.FIRST}.tBodies[0].rows].map((r) => r.cells[{place}].dataset.sort)")

    def test_a_click_sorts_by_value_up_and_then_down(self, tab):
        heading = f"{self.FIRST}.tHead.rows[0].cells[2]"
        before = [float(value) for value in self.column(tab, 2)]
        assert before != sorted(before)
        tab.evaluate(f"{heading}.querySelector('button').click()")
        assert [float(value) for value in self.column(tab, 2)] == sorted(before)
        assert tab.evaluate(f"{heading}.getAttribute('aria-sort')") == "ascending"
        tab.evaluate(f"{heading}.querySelector('button').click()")
        assert [float(value) for value in self.column(tab, 2)] == sorted(before, reverse=True)
        assert tab.evaluate(f"{heading}.getAttribute('aria-sort')") == "descending"

    def test_the_keyboard_does_too_and_shows_where_it_is(self, tab):
        heading = f"{self.FIRST}.tHead.rows[0].cells[0]"
        tab.evaluate("location.hash = '#summary'")
        tab.evaluate("new Promise((done) => setTimeout(done, 300))")
        tab.evaluate(f"{heading}.querySelector('button').focus()")
        tab.key("Tab", 9)
        tab.key("Enter", 13)
        assert tab.evaluate(f"{self.FIRST}.tHead.rows[0].cells[1].getAttribute('aria-sort')") == "ascending"
        assert tab.evaluate(f"{heading}.getAttribute('aria-sort')") is None
        assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"

    def test_what_is_missing_is_last_both_ways(self, tab):
        table = "document.querySelector('#table1 table')"
        keys = f"[...{table}.tBodies[0].rows].map((r) => r.cells[7].dataset.sort)"
        for _ in range(2):
            tab.evaluate(f"{table}.tHead.rows[0].cells[7].querySelector('button').click()")
            found = tab.evaluate(keys)
            assert "" in found
            assert all(key == "" for key in found[found.index("") :])


def test_beside_the_verdict_one_task_set_is_shown_at_a_time(tab):
    shown = "[...document.querySelectorAll('#few-label .panel')].filter((p) => p.clientHeight > 50)"
    seen = f"{shown}.map((p) => p.dataset.group)"
    groups = tab.evaluate("[...document.querySelectorAll('#group option')].map((o) => o.textContent)")
    assert tab.evaluate(seen) == groups[:1]
    tab.evaluate(
        f"(() => {{ const s = document.getElementById('group'); s.value = {json.dumps(groups[2])};"
        " s.dispatchEvent(new Event('change')); })()"
    )
    assert tab.evaluate(seen) == [groups[2]]
    tab.evaluate("new Promise((done) => setTimeout(done, 300))")
    wide = "[...document.querySelectorAll('#few-label .panel:not([hidden]) svg')].map((s) => s.clientWidth)"
    assert tab.evaluate(wide)[0] > 450


def test_a_chart_in_a_fold_is_as_wide_as_its_place_once_the_fold_is_open(tab):
    tab.evaluate("location.hash = '#fig3'")
    tab.evaluate("new Promise((done) => setTimeout(done, 500))")
    charts = "[...document.querySelectorAll('#fig3 .chart')]"
    for place, chart in tab.evaluate(f"{charts}.map((c) => [c.clientWidth, c.querySelector('svg').clientWidth])"):
        assert place > 200
        assert abs(place - chart) <= 2
    tab.evaluate("document.querySelectorAll('main details').forEach((d) => { d.open = false; })")


@pytest.mark.parametrize(("width", "height", "most"), [(1280, 900, 4), (390, 844, 10)])
def test_what_is_not_folded_is_a_few_screens(tab, width, height, most):
    tab.resize(width, height, phone=width < 700)
    assert tab.evaluate("document.documentElement.scrollHeight") <= most * height


def test_the_first_screen_has_the_verdict_and_its_figures(tab, report):
    tab.evaluate("scrollTo(0, 0)")
    bottom = "document.querySelector('{}').getBoundingClientRect().bottom".format
    assert tab.evaluate("document.querySelector('h1').textContent") == report.opening.title
    assert tab.evaluate(bottom("h1")) < 200
    assert tab.evaluate(bottom("#few-label .chart")) < 900


def test_paper_gets_what_is_folded_and_the_screen_its_folds_back(tab, tmp_path):
    folds = "document.querySelectorAll('main details[open]').length"
    before = tab.evaluate(folds)
    tab.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert tab.evaluate(folds) == before
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.evaluate(folds) > before
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.evaluate(folds) == before


def test_text_in_result_files_is_only_ever_text(new_tab, tmp_path):
    made.write_hostile(tmp_path)
    path = tmp_path / "page.html"
    path.write_text(page.render(page.build(load([tmp_path])), "page_files"), encoding="utf-8")
    tab = new_tab()
    tab.call("Page.addScriptToEvaluateOnNewDocument", source="alert = () => console.error('markup came alive')")
    tab.open(path)
    assert tab.errors() == []
    assert tab.evaluate("document.querySelectorAll('img').length") == 0
    assert tab.evaluate("document.querySelectorAll('.chart svg').length") > 1
    assert "<script>alert(1)</script>" in tab.evaluate("document.querySelector('.sentences').textContent")


def luminance(colour):
    parts = [float(part) / 255 for part in colour.strip("rgba()").split(",")[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.fixture(scope="module")
def own(new_tab, tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    path = folder / "page.html"
    path.write_text(page.render(page.build(made.compared(folder / "out")), "page_files"), encoding="utf-8")
    tab = new_tab()
    tab.resize(1280)
    tab.open(path)
    return tab


class TestAComparison:
    def test_the_first_screen_has_the_table_the_figure_and_the_sources(self, own):
        own.resize(1280)
        bottom = "document.querySelector('{}').getBoundingClientRect().bottom".format
        for place in ("#methods table", "#contrasts .chart", "#sources-worth table"):
            assert 0 < own.evaluate(bottom(place)) < 900
        assert own.evaluate("document.querySelector('#runs').getBoundingClientRect().top") > own.evaluate(
            bottom("#sources-worth table")
        )

    @pytest.mark.parametrize("width", [360, 768, 1280])
    def test_never_scrolls_sideways(self, own, width):
        own.resize(width, 780, phone=width < 700)
        assert own.evaluate("document.documentElement.scrollWidth") <= width
        word = "document.querySelector('#sources-worth td.bad').getBoundingClientRect().right"
        assert own.evaluate(word) <= width

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("tone", ["good", "bad", "plain"])
    def test_words_about_sources_can_be_read(self, own, scheme, tone):
        own.resize(1280)
        own.colours(scheme)
        word = own.evaluate(f"getComputedStyle(document.querySelector('#sources-worth td.{tone}')).color")
        dark, light = sorted(map(luminance, (word, own.evaluate("getComputedStyle(document.body).backgroundColor"))))
        assert (light + 0.05) / (dark + 0.05) >= 4.5
