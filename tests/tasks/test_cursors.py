"""Cursors: one arithmetic for NumPy and JAX, compared with a walk row by row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metasched.tasks.cursors import CURSORS, advance, batch_rows, labels_at, starts_of

walks = st.fixed_dictionaries(
    {
        "tasks": st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=9), min_size=1, max_size=4),
        "batch_size": st.integers(1, 20),
        "cursor": st.sampled_from(CURSORS),
        "draws": st.lists(st.integers(0, 4), max_size=8),
    }
)


def walk(xp, tasks, batch_size, cursor, draws):
    """Labels at the cursors before each draw, and the rows drawn: among all rows, none when abstaining."""
    sizes = xp.asarray([len(own) for own in tasks])
    labels, starts, cursors = xp.asarray(np.concatenate(tasks)), starts_of(sizes), xp.zeros_like(sizes)
    for draw in draws:
        task = min(draw, len(tasks))
        rows = [] if task == len(tasks) else starts[task] + batch_rows(cursors[task], sizes[task], batch_size)
        yield np.asarray(labels_at(labels, starts, cursors)).tolist(), np.asarray(rows).tolist()
        cursors = advance(cursors, sizes, task, batch_size, cursor)
        assert isinstance(cursors, type(sizes))
        assert cursors.dtype == sizes.dtype


def row_by_row(tasks, batch_size, cursor, draws):
    cursors, starts = [0] * len(tasks), np.cumsum([0, *map(len, tasks)])
    for draw in draws:
        labels, rows = [own[at] for own, at in zip(tasks, cursors, strict=True)], []
        for _ in range(batch_size if draw < len(tasks) else 0):
            rows.append(int(starts[draw]) + cursors[draw])
            for task, own in enumerate(tasks):
                if task == draw or cursor == "global":
                    cursors[task] = 0 if cursors[task] + 1 == len(own) else cursors[task] + 1
        yield labels, rows


@settings(max_examples=100, deadline=None)
@given(walks)
def test_a_walk_by_batches_is_a_walk_row_by_row(case):
    assert list(walk(np, **case)) == list(row_by_row(**case))


@settings(max_examples=15, deadline=None)
@given(walks)
def test_jax_walks_as_numpy_does(case):
    assert list(walk(jnp, **case)) == list(walk(np, **case))


@pytest.mark.parametrize("cursor", CURSORS)
def test_compiled_and_side_by_side_as_well(cursor):
    sizes, cursors, tasks = np.array([3, 7, 2]), np.array([2, 5, 1]), np.arange(4)
    compiled = jax.jit(jax.vmap(lambda task: advance(jnp.asarray(cursors), jnp.asarray(sizes), task, 4, cursor)))
    expected = [advance(cursors, sizes, task, 4, cursor) for task in tasks]
    np.testing.assert_array_equal(compiled(tasks), expected)


def test_a_batch_wraps_round_and_may_be_larger_than_its_task():
    assert batch_rows(5, 7, 4).tolist() == [5, 6, 0, 1]
    assert batch_rows(1, 2, 5).tolist() == [1, 0, 1, 0, 1]


def test_rested_cursors_wait_global_ones_all_move_and_abstaining_moves_none():
    cursors, sizes = np.array([0, 6, 1]), np.array([10, 8, 3])
    assert advance(cursors, sizes, 1, 4, "rested").tolist() == [0, 2, 1]
    assert advance(cursors, sizes, 1, 4, "global").tolist() == [4, 2, 2]
    for cursor in CURSORS:
        assert advance(cursors, sizes, 3, 4, cursor).tolist() == cursors.tolist()
