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


class TestSummary:
    def test_tells_what_a_person_wants_to_know_first(self, tasks):
        text = tasks.summary()
        assert text.startswith("arrays: 3 tasks, 41 rows, inputs 4, 3 classes (shared)")
        assert "classes: c0, c1, c2" in text
        for word in ("task-0", "task-2", "validation", "test", "array, rows 0–11"):
            assert word in text
        assert str(tasks) == text

    def test_what_is_off_comes_last_with_a_mark(self, tasks):
        assert "!" not in tasks.summary()
        odd = replace(tasks.variant(target_labels=1), label_warnings=("label 'Good' is not in the target",))
        *_, label, few = odd.summary().splitlines()
        assert label == "  ! label 'Good' is not in the target"
        assert few.startswith("  ! the target has 1 labelled row and 30 test rows: with fewer than 8 of either")

    def test_lists_classes_by_task_when_they_differ(self):
        own = build(classes={"a": ["cat", "dog"], "b": ["p", "q"], "target": ["x", "y"]})
        assert "classes of a: cat, dog" in own.summary()
        assert "classes of target: x, y" in own.summary()

    def test_the_summary_says_what_is_predicted_and_what_schedulers_see(self):
        text = make_regression(numbers=2, bins=4).summary()
        assert text.startswith(
            "regression: 3 tasks, 95 rows, inputs 4, targets of 2 numbers, seen by schedulers as 4 bins"
        )
        assert "targets of 1 number, seen" in make_regression(numbers=1).summary()
