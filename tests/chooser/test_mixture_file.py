"""Mixtures in files: what they may say, and every way in which they can be wrong."""

import json
import os
import re

import numpy as np
import pytest

import metasched as ms
from metasched.chooser.mixture_file import LARGEST
from metasched.errors import ConfigError, DataError

WEB, BOOKS = {"name": "web", "size": 100, "weight": 3}, {"name": "books", "size": 50, "weight": 1}
YAML = """
sources:
  - {name: web, size: 100, weight: 3}
  - name: books
    size: 50
    weight: 1
scheduler: thompson
stages:
  - from: 100
    weights: {web: 1, books: 1}
ramp: true
batch_size: 8
seed: 4
prior: 20
options:
  forget: 0.9
"""


@pytest.fixture
def written(tmp_path):
    def write(content, name="mixture.json"):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def test_json_and_yaml_say_the_same(written):
    pytest.importorskip("yaml")
    plain = {
        "sources": [WEB, BOOKS],
        "scheduler": "thompson",
        "stages": [{"from": 100, "weights": {"web": 1, "books": 1}}],
        "ramp": True,
        "batch_size": 8,
        "seed": 4,
        "prior": 20,
        "options": {"forget": 0.9},
    }
    read = ms.read_mixture(written(plain))
    assert ms.read_mixture(written(YAML, "mixture.yaml")) == read
    assert read.sources == {"web": 100, "books": 50}
    chooser = ms.Chooser(read.scheduler, read.sources, **read.options)
    weights = [(0, {"web": 3, "books": 1}), (100, {"web": 1, "books": 1})]
    same = ms.Chooser("thompson", read.sources, 8, weights=weights, ramp=True, seed=4, prior=20, forget=0.9)
    for _ in range(5):
        draw, other = chooser.ask(), same.ask()
        assert draw.rows.tolist() == other.rows.tolist()
        chooser.tell(draw, np.arange(8.0))
        same.tell(other, np.arange(8.0))


def test_paths_are_those_of_the_folder_and_streams_are_read_from_them(written, tmp_path):
    for name in ("web", "books"):
        (tmp_path / f"{name}.txt").write_text("".join(f"{name} {number}\n" for number in range(9)))
    sources = [{"name": "web", "path": "web.txt"}, {"name": "books", "path": str(tmp_path / "books.txt")}]
    read, scheduler, options = ms.read_mixture(written({"sources": sources, "batch_size": 4}))
    draw, rows = next(ms.mix(read, scheduler, **options))
    assert [row.split()[0] for row in rows] == draw.sources.tolist()


def test_the_bytes_of_a_source_need_be_no_plain_file_only_if_it_has_no_path(written):
    read = ms.read_mixture(written({"sources": [{"name": "web"}, {"name": "books"}]}))
    assert read == ({"web": None, "books": None}, "uniform", {})


BOTH = [WEB, BOOKS]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not valid JSON"),
        ('{"sources": [', "is not valid JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        ([], "Expected `object`, got `array`"),
        ({}, "missing required field `sources`"),
        ({"sources": {}}, "Expected `array`, got `object` - at `$.sources`"),
        ({"sources": []}, "there are no sources"),
        ({"sources": [{"size": 3}]}, "missing required field `name` - at `$.sources[0]`"),
        ({"sources": [{"name": ""}]}, "the name of a source is ''"),
        ({"sources": [WEB, WEB]}, "two sources are called 'web'"),
        ('{"sources": [], "sources": []}', "has 'sources' twice in the same place"),
        ({"sources": BOTH, "wieghts": 1}, "unknown field `wieghts`"),
        ({"sources": [{**WEB, "weigth": 1}]}, "unknown field `weigth` - at `$.sources[0]`"),
        ({"sources": [WEB, {**BOOKS, "weight": -1}]}, "weights of 'books' is -1"),
        ({"sources": [WEB, {**BOOKS, "weight": None}]}, "source 'books' has no weight, but others have one"),
        ({"sources": [{**WEB, "weight": 0}]}, "the weights are all 0"),
        ({"sources": [{**WEB, "weight": "3"}]}, "Expected `float | null`, got `str` - at `$.sources[0].weight`"),
        ('{"sources": [{"name": "web", "weight": NaN}]}', "has NaN, which is not a number"),
        ('{"sources": [{"name": "web", "weight": 1e999}]}', "weights of 'web' is inf"),
        ('{"sources": [{"name": "web", "size": ' + "9" * 5000 + "}]}", "integer string conversion"),
        ({"sources": [{**WEB, "size": 0}]}, "size of source 'web' is 0"),
        ({"sources": [{**WEB, "size": 2.5}]}, "Expected `int | null`, got `float`"),
        ({"sources": [{**WEB, "path": "web.txt"}]}, "source 'web' has both a path and a size"),
        ({"sources": [{"name": "web", "path": "nowhere.txt"}]}, "nowhere.txt: no such file"),
        ({"sources": [{"name": "web", "path": "\0"}]}, "cannot be read"),
        ({"sources": [{"name": "web", "path": "."}]}, "is a folder; give a regular file"),
        ({"sources": BOTH, "stages": [{"from": 5, "weights": {"wep": 1}}]}, "unknown source 'wep' of the stage from 5"),
        ({"sources": BOTH, "stages": [{"from": 5, "weights": {"web": 1}}]}, "weights from draw 5 on are"),
        ({"sources": BOTH, "stages": [{"from": 0, "weights": {"web": 1, "books": 1}}]}, r"begin at draws [0, 0]"),
        ({"sources": [{"name": "web"}], "stages": [{"from": 5, "weights": {"web": 1}}]}, "that start at 0"),
        ({"sources": BOTH, "ramp": True}, "a ramp needs several stages"),
        ({"sources": BOTH, "scheduler": "tompson"}, "did you mean 'thompson'"),
        ({"sources": BOTH, "options": {"forget": 3}}, "unknown option 'forget'"),
        ({"sources": BOTH, "options": {"seed": 3}}, "'seed' is not an option of the scheduler"),
        ({"sources": BOTH, "options": {"labels": [1]}}, "at `$.options"),
        ({"sources": BOTH, "options": {"shuffle": "yes"}}, "shuffle is 'yes'; give True or False"),
        ('{"sources": ' + "[" * 100_000, "is nested too deeply"),
        ('{"sources": ' + "[" * 900 + "]" * 900 + "}", "mixture.json: "),
        ("[" + " " * LARGEST + "]", "such a file has at most 1,048,576"),
    ],
)
def test_whatever_is_wrong_is_one_line_with_the_name_of_the_file(written, content, said):
    with pytest.raises(DataError, match=re.escape(said)) as wrong:
        ms.read_mixture(written(content))
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("sources: [", "is not valid YAML"),
        ("a: 1\n---\nb: 2", "is not valid YAML"),
        ("sources: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("sources:\n  - name: web\n  - name: no\n", "Expected `str`, got `bool` - at `$.sources[1].name`"),
        ("sources:\n  - name: 2026-01-01\n", "Expected `str`, got `date`"),
        ("sources:\n  - {name: web, name: books}\n", "has 'name' twice in the same place"),
        ("sources:\n  - {name: web, weight: .nan}\n", "weights of 'web' is nan"),
        ("? [1]\n: 2", "unhashable"),
        ("a: &a [1, 2]\nb: [*a, *a]", "has an alias (*name); write out what it stands for"),
        ("\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9 if n else ['x'])}]" for n in range(9)), "has an alias"),
        ("a: &a [*a]", "has an alias"),
        ("sources: " + "[" * 3000, "is nested too deeply"),
        ("sources: " + "{a: " * 3000, "is nested too deeply"),
        ("\x00", "is not valid YAML"),
        ("", "Expected `object`, got `null`"),
    ],
)
def test_yaml_is_read_without_objects_and_aliases(written, content, said):
    pytest.importorskip("yaml")
    with pytest.raises(DataError, match=re.escape(said)) as wrong:
        ms.read_mixture(written(content, "mixture.yml"))
    assert "\n" not in str(wrong.value)


def test_other_endings_and_what_is_no_plain_file_are_refused(written, tmp_path):
    with pytest.raises(ConfigError, match=r"its name ends in \.json, \.yaml or \.yml"):
        ms.read_mixture(written({}, "mixture.toml"))
    with pytest.raises(DataError, match="cannot read"):
        ms.read_mixture(tmp_path / "none.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(DataError, match="is not a data file"):
        ms.read_mixture(tmp_path / "pipe.json")
