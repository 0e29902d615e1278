"""What else ran, from counters before and after."""

import os

import pytest

from harness.extras.calibrate.machine_state import Busy, Snapshot, background_load, take_snapshot

BEFORE = Snapshot(
    at_s=100.0,
    total_s=1000.0,
    busy_s=400.0,
    steal_s=7.0,
    own_s=50.0,
    swapped_bytes=4096,
    others={(1, 0.0): ("init", 5.0), (9, 3.0): ("browser", 90.0)},
)


def after(**changes) -> Snapshot:
    """Ten seconds later on two CPUs, eight of them busy and all of those with us."""
    ten_later = {"at_s": 110.0, "total_s": 1020.0, "busy_s": 408.0, "own_s": 58.0}
    return Snapshot(**{**vars(BEFORE), **ten_later, **changes})


def test_our_own_work_is_nobody_elses_load() -> None:
    load = background_load(BEFORE, after())
    assert (load.steal_share, load.other_share, load.swapped_bytes, load.busiest) == (0, 0, 0, ())


def test_what_we_did_not_do_others_did() -> None:
    load = background_load(BEFORE, after(busy_s=413.0, others={(1, 0.0): ("init", 5.0), (9, 3.0): ("browser", 94.0)}))
    assert load.other_share == pytest.approx(5 / 20)
    assert load.busiest == (Busy(9, "browser", 0.4),)


def test_a_process_that_came_meanwhile_is_named_too_and_a_recycled_number_is_another() -> None:
    load = background_load(BEFORE, after(busy_s=420.0, others={(9, 105.0): ("make", 3.0), (12, 106.0): ("cc", 6.0)}))
    assert load.busiest == (Busy(12, "cc", 0.6), Busy(9, "make", 0.3))


def test_no_process_took_more_than_all_others_together() -> None:
    load = background_load(BEFORE, after(busy_s=410.0, others={(1, 0.0): ("init", 500.0)}))
    assert load.busiest == (Busy(1, "init", 0.2),)


def test_stolen_time_is_a_share_of_all() -> None:
    assert background_load(BEFORE, after(steal_s=8.0)).steal_share == pytest.approx(1 / 20)
    assert background_load(BEFORE, after(steal_s=None)).steal_share is None


def test_swapping_is_counted() -> None:
    assert background_load(BEFORE, after(swapped_bytes=8192)).swapped_bytes == 4096


def test_a_real_snapshot_counts_us_apart_from_the_others() -> None:
    now = take_snapshot()
    assert now.own_s > 0
    assert now.busy_s < now.total_s
    assert os.getpid() not in {pid for pid, _ in now.others}
