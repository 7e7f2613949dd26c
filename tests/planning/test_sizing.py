"""Numbers for people, and what the machine has."""

import pytest

from metasched.planning import sizing


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (1000, "1,000 bytes"),
        (1024, "1,024 bytes (1 KiB)"),
        (1_500_000_000, "1,500,000,000 bytes (1.4 GiB)"),
        (10**30, "about 10^30 bytes"),
    ],
)
def test_bytes_in_words(count, words):
    assert sizing.bytes_in_words(count) == words


def test_a_number_too_long_to_print_has_an_order_of_magnitude():
    assert sizing.number_in_words(10**5000) == "about 10^5000"


def test_available_memory_respects_the_container(monkeypatch):
    files = {"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:  4 kB\n"}
    monkeypatch.setattr(sizing, "_read", lambda path: files.get(path, ""))
    assert sizing.available_bytes() == 4096
    files |= {"/sys/fs/cgroup/memory.max": "3000\n", "/sys/fs/cgroup/memory.current": "1000\n"}
    assert sizing.available_bytes() == 2000
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert sizing.available_bytes() == 4096
    files.clear()
    assert sizing.available_bytes() == sizing.UNKNOWN


def test_an_accelerator_is_used_when_the_states_fit_it(monkeypatch):
    monkeypatch.setattr(sizing, "accelerator_bytes", lambda: 10**11)
    monkeypatch.setattr(sizing, "available_bytes", lambda: 10**11)

    def method(tasks):
        chosen, reason = sizing.choose_method(
            (tasks, 10), 0.9, separable=False, memory_limit=None, time_budget=60, decision_budget=0.05
        )
        assert reason
        return chosen

    assert [method(tasks) for tasks in (5, 8, 12)] == ["numpy", "jax", "top-k"]


def test_forecasts_grow_with_size_and_discount():
    assert sizing.solve_seconds((5, 10), 0.9) < sizing.solve_seconds((6, 10), 0.9)
    assert sizing.solve_seconds((5, 10), 0.9) < sizing.solve_seconds((5, 10), 0.999)
    assert sizing.widest((50, 10), 0.9, 1e-9) == 1
    assert sizing.widest((50, 10), 0.9, 1e9) == sizing.WIDEST
    assert sizing.widest((2, 10), 0.9, 1e9) == 2
