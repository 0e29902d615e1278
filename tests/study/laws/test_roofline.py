"""Cases under the roof of what their machine can do."""

import math
from dataclasses import replace
from typing import Any

import pytest
from rows import usual_lines
from screens.text_file import titled
from syrupy import SnapshotAssertion

from harness.core.results.columns import CaseResult
from harness.study.laws.roofline import (
    TOO_WIDE,
    Roof,
    points_above_roof,
    roof_points,
    roofs,
    share_at_ridge,
    share_when_cold,
    why_no_roof,
    with_possible_times,
    with_suspects,
)
from harness.study.report.point_charts import roofline_chart

CACHE = 2**20
ROOF = Roof("float32", "cpu", 1, 100e9, 10e9, 1.1, CACHE)

SHORT = {"flops": 10**5, "time_s": 2e-5}  # of the roofs of 1e-6 s by FLOPs, and 1e-4 s by a traffic of `CACHE`


def calibrated(**changed: Any) -> dict[str, Any]:
    calibration = {
        "noise_floor": 0.1,
        "device": "cpu",
        "threads": 2,
        "peak_flops_per_s": {"float32": 100e9, "bfloat16": 200e9},
        "bandwidth": {"bandwidth_bytes_per_s": 10e9, "buffer_bytes": 2**26, "cache_bytes": 2**22},
    }
    return {"calibration": calibration | changed, "calibration_note": None}


def line(
    flops: int | None = 10**9, min_bytes: int | None = 10**7, time_s: float = 0.1, needed: int = 2**40, **changed: Any
) -> CaseResult:
    sizes = {"weights_bytes": 0, "inputs_bytes": 0, "peak_bytes": needed}
    changed = sizes | changed
    times = {"time_s": time_s, "time_lo_s": time_s / 1.1, "time_hi_s": time_s * 1.1}
    return replace(usual_lines()[0], flops=flops, min_bytes=min_bytes, **times, **changed)


def test_there_is_a_roof_for_each_dtype_that_was_calibrated() -> None:
    by_dtype = {roof.dtype: roof for roof in roofs(calibrated())}
    assert by_dtype.keys() == {"float32", "bfloat16"}
    roof = by_dtype["bfloat16"]
    assert (roof.device, roof.threads, roof.cache_bytes) == ("cpu", 2, 2**22)
    assert (roof.peak_flops_per_s, roof.bandwidth_bytes_per_s) == (200e9, 10e9)


def test_the_machine_can_do_what_was_seen_and_more_by_the_noise_floor() -> None:
    assert roofs(calibrated())[0].noise == pytest.approx(1.1)


def test_without_a_noise_floor_there_is_a_roof_that_no_time_contradicts() -> None:
    (roof, _) = roofs(calibrated(noise_floor=None, threads=1))
    assert (roof.peak_flops_per_s, roof.noise) == (100e9, math.inf)
    impossible = line(time_s=1e-6)
    [point] = roof_points([impossible], [roof])
    assert (point.share, point.share_lo) == (pytest.approx(1e4, rel=0.2), 0.0)
    assert points_above_roof([point]) == []
    assert with_possible_times([impossible], [roof]) == with_suspects([impossible], [roof]) == [impossible]
    chart = roofline_chart(roof, [point])
    assert chart is not None
    assert [guide.top for guide in chart.guides] == [guide.y for guide in chart.guides]


def test_a_cache_that_the_kernel_does_not_tell_is_what_calibration_took_it_for() -> None:
    unknown = {"bandwidth_bytes_per_s": 10e9, "buffer_bytes": 2**26, "cache_bytes": None}
    assert roofs(calibrated(bandwidth=unknown))[0].cache_bytes == 2**24


def test_without_a_calibration_there_is_no_roof_and_one_sentence_says_how_to_get_one(
    snapshot: SnapshotAssertion,
) -> None:
    other = {"calibration": None, "calibration_note": "it is of another host: a, here b"}
    never = {"calibration": None, "calibration_note": "there is none: python -m harness calibrate makes one"}
    machines = {"nothing known": {}, "another host": other, "never": never, "calibrated": calibrated()}
    assert [roofs(machine) for machine in (*list(machines.values())[:3], calibrated(bandwidth={}))] == [[]] * 4
    assert titled({title: why_no_roof(machine) for title, machine in machines.items()}) == snapshot


def test_a_case_of_little_intensity_is_held_against_memory_and_another_against_arithmetic() -> None:
    low, high = roof_points([line(min_bytes=10**9), line(min_bytes=10**6)], [ROOF])
    assert (low.flops_per_byte, low.bound) == (1.0, "memory")
    assert (high.flops_per_byte, high.bound) == (1000.0, "compute")
    # 10 GFLOP/s of the 10 that memory allows, and of the 100 of the peak.
    assert low.share == pytest.approx(1.0, rel=1e-5)
    assert high.share == pytest.approx(0.1)


def test_the_interval_of_a_share_is_made_of_those_of_time_and_roof() -> None:
    [point] = roof_points([line()], [ROOF])
    assert (point.flops_per_s_lo, point.flops_per_s_hi) == (pytest.approx(10e9 / 1.1), pytest.approx(11e9))
    assert point.share_lo == pytest.approx(10e9 / 1.1 / 110e9, rel=1e-5)
    assert point.share_hi == pytest.approx(11e9 / 100e9)


def test_one_trial_alone_bounds_no_share() -> None:
    [point] = roof_points([replace(line(), time_lo_s=0.0, time_hi_s=None)], [ROOF])
    assert (point.share_lo, point.share_hi) == (0.0, math.inf)


def test_what_fits_into_the_cache_is_not_bounded_by_memory() -> None:
    [fits] = roof_points([line(min_bytes=10**9, needed=CACHE)], [ROOF])
    assert (fits.bound, fits.share) == ("compute", pytest.approx(0.1))


def test_what_needs_twice_the_cache_must_move_half_of_its_traffic() -> None:
    assert share_at_ridge(line(needed=2 * CACHE), CACHE) == 0.5
    [point] = roof_points([line(min_bytes=10**9, needed=2 * CACHE)], [ROOF])
    assert point.flops_per_s / point.share == pytest.approx(2 * ROOF.at(1.0))
    assert point.share == pytest.approx(0.5)


def test_weights_and_inputs_need_room_too() -> None:
    third = replace(line(), weights_bytes=CACHE, inputs_bytes=CACHE, peak_bytes=CACHE)
    assert share_at_ridge(third, CACHE) == pytest.approx(2 / 3)


@pytest.mark.parametrize(("cache", "bound"), [("cold", "memory"), ("clean", "memory"), ("hot", "compute")])
def test_on_a_gpu_weights_and_inputs_cross_whole_unless_its_cache_is_hot(cache: str, bound: str) -> None:
    # Decoding one token: all weights and the cache of keys and values once, and hardly anything else.
    decode = replace(line(), device="cuda", weights_bytes=8 * 2**20, inputs_bytes=8 * 2**20, peak_bytes=2**14)
    decode = replace(decode, min_bytes=16 * 2**20 + 2**14, flops=10**7, time_s=5e-6, cache=cache)
    [point] = roof_points([decode], [Roof("float32", "cuda", 1, 700e12, 4.3e12, 1.1, 50 * 2**20)])
    least_s = {"memory": 16 * 2**20 / 4.3e12, "compute": 10**7 / 700e12}[bound]
    assert (point.bound, point.share) == (bound, pytest.approx(least_s / 5e-6, rel=1e-6))


def test_intermediates_on_a_gpu_may_stay_in_the_cache_as_far_as_it_reaches() -> None:
    half = replace(line(), weights_bytes=100, inputs_bytes=100, peak_bytes=2 * CACHE, min_bytes=1000)
    assert share_when_cold(half, CACHE) == pytest.approx((200 + 400) / 1000)
    assert share_when_cold(replace(half, weights_bytes=None), CACHE) == 1.0


def test_only_lines_of_the_same_dtype_device_and_threads_come_under_a_roof() -> None:
    for change in ({"dtype": "bfloat16"}, {"device": "cuda"}, {"threads": 2}):
        assert roof_points([line(**change)], [ROOF]) == []
    on_gpu = replace(ROOF, device="cuda")
    assert len(roof_points([line(device="cuda", threads=7)], [on_gpu])) == 1


def test_what_was_not_timed_or_counted_is_no_point() -> None:
    for change in ({"time_s": None}, {"flops": None}, {"flops": 0}, {"min_bytes": None}):
        assert roof_points([replace(line(), **change)], [ROOF]) == []
    assert roof_points([], [ROOF]) == []
    assert roof_points([line()], []) == []


def test_a_case_faster_than_its_roof_is_told_with_what_may_be_wrong(snapshot: SnapshotAssertion) -> None:
    under, near, above = (line(min_bytes=10**6, time_s=time_s) for time_s in (0.011, 0.0095, 0.005))
    assert points_above_roof(roof_points([under, near], [ROOF])) == []  # near: above by less than its interval
    compute = points_above_roof(roof_points([under, above, near], [ROOF]))
    memory = points_above_roof(roof_points([line(min_bytes=10**9, time_s=0.01)] * 2, [ROOF]))
    assert titled({"compute": "\n".join(compute), "memory": "\n".join(memory)}) == snapshot


def test_no_lower_end_is_faster_than_the_peak_of_the_machine() -> None:
    wide = replace(line(time_s=0.012), time_lo_s=0.001)
    found = with_possible_times([wide], [ROOF])[0]
    assert found.time_lo_s == pytest.approx(10**9 / (100e9 * 1.1))
    assert (found.time_s, found.time_hi_s) == (wide.time_s, wide.time_hi_s)


def test_nor_faster_than_its_traffic_takes() -> None:
    wide = replace(line(flops=10**6, time_s=0.002), time_lo_s=1e-6)
    assert with_possible_times([wide], [ROOF])[0].time_lo_s == pytest.approx(10**7 / (10e9 * 1.1))


@pytest.mark.parametrize("flops", [None, 0])
def test_nor_without_flops(flops: int | None) -> None:
    wide = replace(line(min_bytes=10**9, time_s=0.2), flops=flops, time_lo_s=1e-6)
    least_s = (10**9 - (flops is not None) * CACHE) / (10e9 * 1.1)
    assert with_possible_times([wide], [ROOF])[0].time_lo_s == pytest.approx(least_s, rel=1e-5)


def test_nor_without_known_traffic() -> None:
    wide = replace(line(min_bytes=None, time_s=0.012), time_lo_s=0.001)
    assert with_possible_times([wide], [ROOF])[0].time_lo_s == pytest.approx(10**9 / (100e9 * 1.1))


def test_a_time_above_the_roof_keeps_its_interval() -> None:
    above = line(time_s=0.005)
    assert with_possible_times([above], [ROOF]) == [above]


def test_a_lower_end_that_the_machine_can_reach_stays_as_it_is_and_so_does_a_case_without_a_roof() -> None:
    usual, other = line(time_s=0.1), replace(line(time_s=0.012), time_lo_s=0.001, dtype="bfloat16")
    assert with_possible_times([usual, other], [ROOF]) == [usual, other]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"flops": 10**9, "time_s": 5e-3}, "it takes less time than its FLOPs at the measured peak"),
        ({"flops": 10**6, "min_bytes": 10**9, "time_s": 0.05}, "it takes less time than its least traffic"),
        ({"flops": 10**9, "time_s": 9.5e-3}, None),
        ({"flops": 10**9, "time_s": 0.02}, None),
        # At least 0.1 s of traffic, whether or not the FLOPs are known.
        ({"flops": None, "min_bytes": 10**9, "time_s": 0.05}, "it takes less time than its least traffic"),
        ({"flops": None, "min_bytes": 10**9, "time_s": 0.095}, None),
        ({"flops": None, "min_bytes": None, "time_s": 0.05}, None),
        # The traffic of a compiled case is unknown.
        ({"flops": 10**15, "min_bytes": None, "time_s": 1e-6}, "it takes less time than its FLOPs"),
        ({"flops": 10**9, "min_bytes": None, "time_s": 9.5e-3}, None),
        ({"flops": 0, "min_bytes": 10**9, "time_s": 0.05}, "it takes less time than its least traffic"),
        # A view allocates nothing, a lookup one row of its table, and what fits into the cache may stay there.
        ({"flops": 0, "min_bytes": 10**9, "time_s": 1e-6, "needed": 0}, None),
        ({"flops": 0, "min_bytes": 10**9, "time_s": 1e-6, "needed": CACHE}, None),
        ({"flops": 0, "min_bytes": 10**9, "time_s": 0.05, "needed": 10**9}, "it takes less time than its least"),
        # A mixture of experts, whose chosen ones stay in the cache.
        ({"weights_bytes": 10**9, "read_bytes": CACHE // 2, "min_bytes": CACHE, "needed": CACHE // 2} | SHORT, None),
        (
            {"weights_bytes": 10**9, "min_bytes": CACHE, "needed": CACHE // 2} | SHORT,
            "it takes less time than its least",
        ),
        ({"threads_after": 0.9}, "threads of the layer run on after a call has returned"),
        ({"threads_after": 0.2}, None),
        ({"cpu_over_wall": 1.3}, "it uses more CPUs than its number of threads"),
        ({"cpu_over_wall": 1.05}, None),
        ({"cpu_over_wall": 1.9, "threads": 2}, None),
        ({"cpu_over_wall": 1.9, "device": "cuda"}, None),
    ],
)
def test_a_time_that_cannot_be_is_suspect(changed: dict[str, Any], why: str | None) -> None:
    (found,) = with_suspects([line(**changed)], [ROOF])
    assert (found.suspect or "").startswith(why or "")
    assert bool(found.suspect) is bool(why)
    assert (found.best_known_time is None) is bool(why)


@pytest.mark.parametrize(("wide", "is_suspect"), [(2, True), (1, False)])
def test_if_most_intervals_are_too_wide_no_time_of_the_run_is_compared(wide: int, is_suspect: bool) -> None:
    too_wide = replace(line(), time_lo_s=0.03, time_hi_s=0.31)
    lines = [too_wide] * wide + [line()] * (3 - wide)
    timed = with_suspects(lines, [])
    assert {one.suspect for one in timed} == {TOO_WIDE if is_suspect else None}
    failed = replace(line(), status="oom", time_s=None, time_lo_s=None, time_hi_s=None)
    assert with_suspects([*lines, failed], [])[-1].suspect is None


def test_what_a_table_calls_suspect_stays_so_where_nothing_is_calibrated() -> None:
    told = replace(line(), suspect="it is faster than the machine")
    assert [one.suspect for one in with_suspects([told, line()], [])] == [told.suspect, None]


def test_without_a_calibration_no_speed_is_suspect() -> None:
    (found,) = with_suspects([line(flops=10**15, time_s=1e-6)], [])
    assert found.suspect is None
