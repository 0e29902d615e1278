"""Which CPUs two trials meet: the same ones, and all of them in turn."""

import os
import threading
from collections.abc import Callable

import pytest

from harness.core.trial.environment import affinity_mover, cpu_places

needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no CPU affinity on this system")
pytestmark = needs_affinity


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[set[int]], None]:
    return lambda cpus: monkeypatch.setattr(os, "sched_getaffinity", lambda process: cpus)


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("cpus", [{0, 1}, {2, 5, 7}, set(range(8)), set(range(1, 64, 2))])
def test_together_they_are_all_cpus_and_each_has_one_a_thread(
    threads: int, cpus: set[int], on: Callable[[set[int]], None]
) -> None:
    on(cpus)
    found = cpu_places(threads)
    if threads >= len(cpus):
        assert found == []
    else:
        assert {len(place) for place in found} == {threads}
        assert set.union(*found) == cpus
        assert len(found) == -(-len(cpus) // threads)


def test_where_there_is_no_choice_nobody_is_moved(
    on: Callable[[set[int]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    on({3})
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: pytest.fail("it was moved"))
    affinity_mover(1)(0)


def test_all_threads_are_moved_round_and_round(on: Callable[[set[int]], None], monkeypatch: pytest.MonkeyPatch) -> None:
    on({4, 9})
    moved: dict[int, list[set[int]]] = {}
    monkeypatch.setattr(os, "sched_setaffinity", lambda task, cpus: moved.setdefault(task, []).append(cpus))
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        move = affinity_mover(1)
        for number in range(3):
            move(number)
    finally:
        done.set()
        thread.join()
    assert moved[os.getpid()] == [{4}, {9}, {4}]
    assert moved[thread.native_id or 0] == [{4}, {9}, {4}]


def test_a_thread_that_has_just_ended_is_no_error(
    on: Callable[[set[int]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(task: int, cpus: set[int]) -> None:
        raise ProcessLookupError

    on({0, 1})
    monkeypatch.setattr(os, "sched_setaffinity", gone)
    affinity_mover(1)(0)
