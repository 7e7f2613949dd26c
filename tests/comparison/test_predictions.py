"""Predictions as a CSV file, read back with Python's own reader."""

import csv
import io

import numpy as np
import pytest

from helpers import make_regression, make_tasks
from metasched.comparison.predictions import as_csv, columns
from metasched.references.recipes import Recipe, fit_recipe

NAMES = ("shop.csv line 2", 'a "quoted", name', "plain")


def read(content):
    return list(csv.DictReader(io.StringIO(content.decode())))


def test_classes_have_a_prediction_and_how_likely_each_is():
    tasks = make_tasks()
    model = fit_recipe(Recipe("linear", "pooled"), tasks)
    rows = read(as_csv(model, NAMES, tasks.test.inputs[:3]))
    assert [row["row"] for row in rows] == list(NAMES)
    chances = [[float(row[f"p({name})"]) for name in tasks.classes] for row in rows]
    assert chances == pytest.approx(model.predict_proba(tasks.test.inputs[:3]), abs=1e-6)
    assert [row["prediction"] for row in rows] == [tasks.classes[np.argmax(each)] for each in chances]


@pytest.mark.parametrize(("numbers", "titles"), [(1, ["prediction"]), (2, ["prediction 1", "prediction 2"])])
def test_numbers_have_a_column_each(numbers, titles):
    tasks = make_regression(numbers=numbers)
    model = fit_recipe(Recipe("linear", "pooled"), tasks)
    inputs = tasks.test.inputs[:3]
    assert list(columns(model, NAMES, inputs)) == ["row", *titles]
    found = [[float(row[title]) for title in titles] for row in read(as_csv(model, NAMES, inputs))]
    assert found == pytest.approx(model.predict(inputs).reshape(3, -1), rel=1e-5)
