from metasched.meta import evaluate, loop
from metasched.meta.networks import default_network, mlp

import metasched as ms
from helpers import make_own_label_tasks, make_tasks
from metasched import schedulers


def program_for(tasks, network=None, **config):
    settings = ms.TrainConfig(**{"batch_size": 4, "meta_updates": 6, "eval_every": 1, **config})
    return loop.prepare(tasks, network or mlp(3, hidden=(16,)), schedulers.cyclic(len(tasks.tasks)), settings)


def records_of(program, *seeds):
    states = {seed: loop.start(program, seed) for seed in seeds or (0,)}
    return [record for _, records in loop.run(program, states) for record in records]


def test_learns_separable_classes():
    records = records_of(program_for(make_tasks(test=200), meta_updates=40, inner_rate=0.1, outer_rate=0.01))
    assert records[0]["test_accuracy"] < 0.7
    assert records[-1]["final"]["test_accuracy"] > 0.9


def test_records_count_updates_samples_and_rows_by_task():
    records = records_of(program_for(make_tasks(sizes=(12, 20, 9)), batches_per_update=4))
    assert [record["update"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert [record["samples"] for record in records] == [16, 32, 48, 64, 80, 96]
    assert records[-1]["drawn"] == [32, 32, 32]
    assert records[0]["tasks"] == [0, 1, 2, 0]
    assert "final" not in records[0]
    assert records[-1]["final"]["test_rows"] == 30


def test_measures_every_so_often_on_a_subset_and_at_the_end_on_everything():
    records = records_of(program_for(make_tasks(test=200), eval_every=4, eval_rows=50))
    assert ["test_accuracy" in record for record in records] == [False, False, False, True, False, True]
    assert records[3]["test_rows"] == 50
    assert records[-1]["final"]["test_rows"] == 200


def test_accuracy_in_chunks_equals_accuracy_at_once(monkeypatch):
    tasks = make_tasks(test=205)
    whole = records_of(program_for(tasks))[-1]["final"]
    monkeypatch.setattr(evaluate, "ROWS_AT_ONCE", 32)
    assert records_of(program_for(tasks))[-1]["final"] == whole


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    program = program_for(make_tasks())
    assert records_of(program, 3) == records_of(program, 3)
    assert records_of(program, 3) != records_of(program, 4)


def test_continuing_from_any_state_gives_the_same_records():
    program = program_for(make_tasks())
    chunks = list(loop.run(program, {0: loop.start(program, 0)}))
    records = [record for _, chunk in chunks for record in chunk]
    assert len(chunks) > 1
    for number, (middle, _) in enumerate(chunks[:-1], start=1):
        done = sum(len(chunk) for _, chunk in chunks[:number])
        assert [record for _, chunk in loop.run(program, middle()) for record in chunk] == records[done:]


def test_a_loss_that_is_no_longer_finite_ends_the_seed_with_the_knob_to_turn():
    (record,) = records_of(program_for(make_tasks(), inner_rate=1e30))
    assert record["update"] == 1
    assert "the inner loop overflowed at rate 1e+30; lower inner_rate" in record["diverged"]


def test_label_sets_of_their_own_train_too():
    tasks = make_own_label_tasks()
    program = program_for(tasks, default_network(tasks), meta_updates=15)
    assert records_of(program)[-1]["final"]["test_accuracy"] > 0.9
