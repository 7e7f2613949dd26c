import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import made_up_results as made
from metasched.errors import ConfigError
from metasched.report import page
from metasched.report.outputs import outputs
from metasched.report.results import load

for module in ("altair", "jinja2", "vl_convert"):
    pytest.importorskip(module)


class Tags(HTMLParser):
    """Tags with their attributes, ids, links, and text outside scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.inside = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside not in ("script", "style"):
            self.words.append(data)

    def every(self, name, attribute):
        return [attributes[attribute] for tag, attributes in self.tags if tag == name and attribute in attributes]


@pytest.fixture(scope="module")
def rendered(report):
    return page.render(report, "page_files")


class TestWhatIsOnThePage:
    def test_the_verdict_comes_first_and_all_but_its_figures_is_folded(self, rendered, report):
        assert rendered.index(f"<h1>{report.opening.title}") < rendered.index('id="contrasts"')
        unfolded = re.sub(r"<details.*</details>", "", rendered[: rendered.index("<footer>")], flags=re.DOTALL)
        assert [output.name for output, _ in report.first] == ["contrasts", "few-label", "schedules"]
        assert "<table" not in unfolded
        titles = re.findall(r"<summary><h2>(.*?)</h2>", rendered)
        assert titles == [
            "Every comparison in numbers",
            "Few labels and spoilt sources",
            "The paper&#39;s tables and figures",
            "Not available (3)",
            "How to read the numbers",
        ]

    def test_every_figure_and_table_is_there_once_but_for_those_of_other_results(self, report):
        assert [name for name, _ in report.missing] == ["sources", "planned", "useful-draws"]
        assert len({figure.key for figure in report.figures}) == len(report.figures)
        assert len({table.key for table in report.tables}) == len(report.tables)

    def test_every_number_has_its_command_seeds_and_device(self, rendered, report, everything):
        words = "".join(Tags(rendered).words)
        for cell in everything.cells:
            assert cell.key in words
        pieces = len(report.figures) + len(report.tables)
        assert words.count("metasched paper digits --seeds 10") >= pieces
        assert words.count("4 seeds (0–3), gpu: NVIDIA H200") >= pieces - 7
        assert f"metasched report {everything.paths[0]} --only fig3, as SVG, PNG, PDF." in words

    def test_simulated_data_say_so_in_every_caption(self, report, rendered):
        text = "".join(Tags(rendered).words)
        for piece in (*report.figures, *report.tables):
            if any(source.simulated for source in piece.sources):
                assert re.search(re.escape(piece.title) + r" \(simulated data", text), piece.key

    def test_it_asks_for_nothing_from_outside(self, rendered):
        tags = Tags(rendered)
        assert tags.every("script", "src") == tags.every("img", "src") == tags.every("iframe", "src") == []
        links = tags.every("a", "href") + tags.every("link", "href")
        assert [link for link in links if not link.startswith(("#", "page_files/", "data:,"))] == []
        (policy,) = [a["content"] for t, a in tags.tags if t == "meta" and "http-equiv" in a]
        assert policy.startswith("default-src 'none'")

    def test_links_and_labels_point_at_something(self, rendered):
        tags = Tags(rendered)
        ids = [attributes["id"] for _, attributes in tags.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        inner = [link[1:] for link in tags.every("a", "href") if link.startswith("#")]
        labels = [attributes["aria-labelledby"] for _, attributes in tags.tags if "aria-labelledby" in attributes]
        assert set(inner + labels) <= set(ids)

    def test_landmarks_headings_and_names_for_those_who_listen(self, rendered):
        tags = Tags(rendered)
        names = [tag for tag, _ in tags.tags]
        assert [names.count(tag) for tag in ("header", "main", "footer", "h1")] == [1, 1, 1, 1]
        levels = [int(tag[1]) for tag in names if re.fullmatch(r"h[1-6]", tag)]
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
        charts = [attributes for _, attributes in tags.tags if attributes.get("role") == "img"]
        assert charts
        assert all(attributes["aria-label"] for attributes in charts)
        assert names.count("caption") == names.count("table")


def test_rows_are_as_wide_as_the_heading_and_numbers_name_their_cells(report):
    assert len(report.tables) > 20
    for table in report.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert table.sources
        assert table.note


def test_one_method_alone_has_a_leaderboard_and_says_what_is_missing(tmp_path):
    bare = made.run("sequential", study=made.study(regime="other"), updates=(), samples=(), test_accuracy=())
    report = page.build(made.loaded(tmp_path, [bare]))
    assert [table.key for table in report.tables] == ["methods", "leaderboard-digits/other-30-labels"]
    assert report.missing == ()
    assert report.opening.title == "Nothing to compare yet: sequential alone"


def test_where_no_method_was_named_before_the_runs_the_page_says_that_it_explores(rendered):
    words = " ".join("".join(Tags(rendered).words).split())
    assert "Exploratory: in each cell, the best of the methods that choose, picked after the runs." in words


@pytest.fixture(scope="module")
def page_of_own(tmp_path_factory):
    schedule = ((3, 2, 1, 1, 0, 0),) * 3
    runs = [
        [made.own(name, seed, curve=(0.2, 0.3, level + 0.01 * seed), schedule=schedule)]
        for name, level in (("uniform", 0.4), ("target-only", 0.41), ("thompson", 0.82), ("exp3", 0.5))
        for seed in range(3)
    ]
    report = page.build(made.loaded(tmp_path_factory.mktemp("own"), *runs))
    return report, page.render(report, "page_files")


class TestRunsOfOnesOwn:
    def test_never_mention_the_paper(self, page_of_own):
        report, text = page_of_own
        without_library = re.sub(r"<script>\s.*?</script>", "", text, flags=re.DOTALL)
        assert "paper" not in without_library.lower().replace("metasched paper digits", "")
        assert report.missing == ()

    def test_have_their_verdict_three_figures_and_the_rest_folded(self, page_of_own):
        report, text = page_of_own
        assert [output.name for output, _ in report.first] == ["contrasts", "runs", "schedules", "methods"]
        assert "<h1>Too few seeds to tell whether " in text
        assert re.findall(r"<summary><h2>(.*?)</h2>", text) == [
            "Every comparison in numbers",
            "How to read the numbers",
        ]


class TestAComparison:
    def text(self, tmp_path, **changes):
        return page.render(page.build(made.compared(tmp_path, **changes)), "page_files")

    def test_has_what_the_terminal_says_in_its_order_and_the_curves_below(self, tmp_path):
        text, stored = self.text(tmp_path), made.told()
        marks = [
            f'<p class="first">{stored.first}',
            f"<h1>{stored.verdict}",
            stored.final,
            stored.judged,
            'id="methods"',
            'id="contrasts"',
            "<strong>!</strong>",
            'id="sources-worth"',
            'id="runs"',
        ]
        places = [text.index(mark) for mark in marks]
        assert places == sorted(places)
        assert re.findall(r"<summary><h2>(.*?)</h2>", text) == ["How to read the numbers"]
        cells = re.findall(r'<td class="number".*?</td>', text)
        assert any(">−0." in cell for cell in cells)  # as in sentences and on the terminal
        assert not any(re.search(r"[>\[ ]-\d", cell) for cell in cells)

    def test_words_about_sources_are_coloured_and_ours_is_bold(self, tmp_path):
        text = self.text(tmp_path)
        for word, tone in (("keep", "good"), ("harmful", "bad"), ("cannot tell", "plain")):
            assert f'class="{tone}">{word}</td>' in text
        assert re.search(r'<tr class="strong">\s*<th scope="row" data-sort="thompson">', text)

    @pytest.mark.parametrize(("count", "folded"), [(3, None), (4, "and 1 more warning"), (12, "and 9 more warnings")])
    def test_warnings_after_the_third_are_folded(self, tmp_path, count, folded):
        text = self.text(tmp_path, lines=tuple(f"number {place} is off" for place in range(count)))
        assert [text.count(f"number {place} is off") for place in range(count)] == [1] * count
        found = re.findall(r"<summary>(and .*?)</summary>", text)
        assert found == ([folded] if folded else [])
        if folded:
            assert text.index("number 2 is off") < text.index(folded) < text.index("number 3 is off")

    def test_never_speaks_of_accuracy_where_another_metric_judged(self, tmp_path):
        notes = made.told(metric="log-loss")
        report = page.build(made.compared(tmp_path, metric=notes.metric))
        said = [part for piece in (*report.figures, *report.tables) for part in (piece.title, piece.note)]
        said += [column.name for table in report.tables for column in table.columns]
        said += [panel.alt for figure in report.figures for panel in figure.panels]
        assert [line for line in said if "accuracy" in line] == []
        assert "accuracy" not in json.dumps([page.panel_spec(panel) for f in report.figures for panel in f.panels])


class TestOnly:
    def test_draws_what_is_named(self, everything):
        report = page.build(everything, ["fig3", "table1"])
        assert [figure.key for figure in report.figures] == ["fig3"]
        assert [table.key for table in report.tables] == ["table1"]
        assert [tag for tag, attributes in Tags(page.render(report, "f")).tags if "open" in attributes] != []

    def test_an_unknown_name_is_refused_with_the_known_ones(self, everything):
        with pytest.raises(ConfigError, match="did you mean 'table1'") as error:
            page.build(everything, ["tabel1"])
        assert "fig3" in str(error.value)

    def test_what_has_no_data_is_listed_with_the_reason(self, tmp_path):
        made.write(tmp_path, made.cell(seeds=2, names=["cyclic", "ucb"]))
        report = page.build(load([tmp_path]), ["fig4", "few-label"])
        assert dict(report.missing) == {"fig4": "no cell has recorded its accuracy over time"}
        words = "".join(Tags(page.render(report, "files")).words)
        assert "fig4: not available, because no cell has recorded its accuracy over time." in words
        assert [figure.key for figure in report.figures] == ["few-label"]


def test_text_in_result_files_cannot_become_markup(tmp_path):
    made.write_hostile(tmp_path)
    text = page.render(page.build(load([tmp_path])), "files")
    tags = Tags(text)
    assert tags.every("img", "src") == []
    assert all("onerror" not in attributes for _, attributes in tags.tags)
    assert [tag for tag, _ in tags.tags].count("script") == 3
    specs = re.search(r'<script type="application/json" id="specs">(.*?)</script>', text, re.DOTALL).group(1)
    assert made.HOSTILE in json.dumps(json.loads(specs), ensure_ascii=False).replace('\\"', '"')


def test_files_beside_the_page(tmp_path, everything):
    folder = page.write(page.build(everything, ["fig3", "table1"]), tmp_path / "deep" / "page.html")
    assert folder.name == "page_files"
    assert sorted(file.name for file in folder.iterdir()) == [
        "fig3.pdf",
        "fig3.png",
        "fig3.svg",
        "table1.csv",
        "table1.tex",
    ]
    assert (folder / "fig3.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "fig3.pdf").read_bytes().startswith(b"%PDF")
    svg = (folder / "fig3.svg").read_text()
    assert all(f">{name}<" in svg for name in ("cyclic", "ucb", "gittins", "mdp", "target-only", "threshold"))


def test_the_same_results_give_the_same_page(everything):
    chosen = ["fig3", "table1", "summary"]
    assert page.render(page.build(everything, chosen), "f") == page.render(page.build(everything, chosen), "f")


@pytest.mark.parametrize(("numbers", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 5, 7, 8], "0–2, 5, 7–8")])
def test_seeds_are_drawn_together(numbers, text):
    assert page.ranges(numbers) == text


def test_the_guide_lists_every_figure_and_table():
    guide = (Path(__file__).parents[2] / "docs" / "report.md").read_text()
    assert [name for name in outputs() if f"`{name}`" not in guide] == []
