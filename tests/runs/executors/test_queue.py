import pytest

from metasched.runs.executors.queue import LOSSES, TRIES, Counts, Queue


def drain(queue):
    """Every run in the order in which one worker makes them."""
    order, program = [], None
    while bundle := queue.take(program):
        program = bundle.program
        order += bundle.runs
        queue.done(bundle)
    return order


def test_a_worker_stays_with_the_runs_that_share_a_program():
    assert drain(Queue(dict(enumerate("abababb")))) == [1, 3, 5, 6, 0, 2, 4]


def test_two_workers_begin_at_different_programs_and_help_each_other_at_the_end():
    queue = Queue(dict(enumerate("aaaab")))
    first, second = queue.take(), queue.take()
    assert {first.program, second.program} == {"a", "b"}
    queue.done(second)
    assert queue.take(second.program).program == "a"


def test_a_worker_with_a_gpu_takes_several_of_one_shape_at_once():
    queue = Queue(dict(enumerate("aaabb")), at_once=2)
    bundles = [queue.take() for _ in range(3)]
    assert sorted(len(bundle.runs) for bundle in bundles) == [1, 2, 2]
    assert all(len({"aaabb"[run] for run in bundle.runs}) == 1 for bundle in bundles)


def test_an_exception_is_tried_again_and_then_the_run_has_failed_and_the_rest_goes_on():
    queue = Queue({0: "a", 1: "a"})
    tries = 0
    while not queue.ended:
        bundle = queue.take()
        if bundle.runs == (0,):
            queue.failed(bundle, "ValueError: no")
            tries += 1
            assert bool(queue.failures) == (tries == TRIES)
        else:
            queue.done(bundle)
    assert queue.failures[0].error == "ValueError: no"
    assert queue.failures[0].tries == TRIES
    assert queue.counts == Counts(0, 0, 1, 1)


def test_a_lost_worker_is_no_fault_of_its_run_unless_it_takes_ten_with_it():
    queue = Queue({0: "a"})
    for _ in range(LOSSES - 1):
        queue.lost(queue.take(), "its worker ended")
    queue.failed(queue.take(), "an exception, the first")
    assert queue.failures == {}
    queue.lost(queue.take(), "its worker ended")
    assert list(queue.failures) == [0]
    assert queue.ended


def test_a_run_in_other_hands_may_be_tried_for_ever():
    queue = Queue({0: "a"})
    for _ in range(100):
        queue.again(queue.take())
    assert not queue.failures
    assert drain(queue) == [0]


def test_runs_of_a_group_that_failed_are_tried_one_by_one():
    queue = Queue({0: "a", 1: "a"}, at_once=2)
    queue.failed(queue.take(), "one of them is bad")
    assert sorted(queue.take().runs + queue.take().runs) == [0, 1]


def test_counts_follow_every_run_and_leave_out_what_is_not_there():
    said = []
    queue = Queue({0: "a", 1: "a"}, on_counts=lambda counts: said.append(str(counts)))
    queue.done(queue.take())
    queue.done(queue.take())
    assert said == ["1 waiting, 1 running", "1 waiting", "1 running", ""]


@pytest.mark.parametrize("programs", [{}, {0: "a"}])
def test_a_queue_ends(programs):
    queue = Queue(programs)
    assert len(drain(queue)) == len(programs)
    assert queue.ended
