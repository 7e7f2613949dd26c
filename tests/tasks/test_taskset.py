from dataclasses import replace

import metasched as ms
from helpers import make_regression, make_tasks
from small_sets import build, rows


class TestFingerprint:
    def test_is_the_same_for_equal_data(self):
        assert make_tasks().fingerprint == make_tasks().fingerprint

    def test_changes_with_a_label_an_input_or_a_name(self):
        base = build()
        inputs, labels = rows(seed=1)
        changed = labels.copy()
        changed[3] = 1
        moved = inputs.copy()
        moved[0, 0] += 1e-3
        variants = [
            build(tasks={"a": (inputs, changed), "b": rows(seed=2)}),
            build(tasks={"a": (moved, labels), "b": rows(seed=2)}),
            build(tasks={"c": (inputs, labels), "b": rows(seed=2)}),
        ]
        assert len({base.fingerprint, *(variant.fingerprint for variant in variants)}) == 4

    def test_the_fingerprint_covers_the_targets(self):
        tasks = make_regression()
        moved = tasks.tasks[1].targets.copy()
        moved[3, 1] += 1e-3
        for changed in (
            replace(tasks, tasks=(tasks.tasks[0], replace(tasks.tasks[1], targets=moved), tasks.tasks[2])),
            replace(tasks, test=ms.Split(*tasks.test, tasks.test.targets + 1)),
        ):
            assert changed.fingerprint != tasks.fingerprint
        assert make_regression().fingerprint == tasks.fingerprint
