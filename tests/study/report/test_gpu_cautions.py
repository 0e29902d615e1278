"""What a report says about a GPU that was not at its best, and what the machine's advice says."""

from dataclasses import replace
from typing import Any

from rows import PRECISION, row

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.core.results.summarise import summarise
from harness.study.report.text.cautions import caution_summary, report_cautions

MACHINE = {"torch": {"gpu_states": {"GPU-1": {"index": 0, "sm_clock_max_mhz": 1980}}}}


def lines(impl: str = "rnn.torch", **values: Any) -> list[CaseResult]:
    case = Case(impl, 512, 1024, 1, device="cuda")
    given = {"samples_s": [1e-3] * 5, "probe_s": 1e-4, "queue_held": 1.0, **values}
    return summarise([row(case, "time", i, **given) for i in (1, 2)], PRECISION)


def cautions(machine: dict[str, Any] | None = None, **values: float) -> str:
    return " ".join(report_cautions(lines(**values), machine))


def test_a_lowered_clock_rate_is_told_with_the_command_that_locks_it() -> None:
    said = cautions(throttled_share=0.2, sm_clock_mhz=1412.0)
    assert "over 5.0 % of the samples were left out" in said
    assert "'sudo nvidia-smi -lgc 1412'. On a machine that others use too, leave the clock rate alone." in said


def test_a_case_whose_launches_cannot_be_left_out_is_told_without_a_time_in_the_table() -> None:
    bound = {"host_bound": True, "wall_call_s": 2e-3}
    assert "the GPU's work, whose time the table shows" in cautions(**bound)
    said = cautions(**bound, queue_held=0.0)
    assert said.startswith("no GPU time: rnn.torch")
    assert "left out of the time. Calls back to back take wall_call_s, 2.00 ms for" in said
    assert "the table shows" not in said


NO_GRAPH = {"host_bound": True, "wall_call_s": 2e-3, "queue_held": 0.0}
WAITS = "no CUDA graph: RuntimeError: CUDA error: operation not permitted when stream is capturing"
NO_ROOM = "no room for a CUDA graph: CUDA out of memory"


def test_the_reason_for_having_no_cuda_graph_is_told_once_for_all_cases_that_share_it() -> None:
    layers = {"rnn.torch": WAITS, "rnn.elman": WAITS, "attention.naive": NO_ROOM}
    found = [line for impl, why in layers.items() for line in lines(impl, graph_note=why, **NO_GRAPH)]
    assert [line.graph_note for line in found] == [*layers.values()]
    waits, no_room = report_cautions(found)
    assert waits.startswith("no GPU time: rnn.torch and rnn.elman (2 cases): the launches could not be left out")
    assert f"of the time ({WAITS}). Calls" in waits
    assert f"({NO_ROOM})" in no_room


def test_cases_without_a_gpu_time_are_not_counted_among_the_host_bound_ones() -> None:
    timed = lines("rnn.elman", host_bound=True, wall_call_s=2e-3)
    assert caution_summary([*timed, *lines(**NO_GRAPH)], []) == (
        "Warning: 1 case host-bound (rnn.elman n=512 d=1024 h=1), "
        "1 case without a GPU time (rnn.torch n=512 d=1024 h=1). See report.md."
    )


def test_another_process_on_the_gpu_is_told_with_its_share_of_the_trials() -> None:
    assert "in up to 100 % of the trials" in cautions(gpu_disturbed=1.0)


def test_a_clock_rate_that_is_free_is_told_once_with_what_a_lock_costs() -> None:
    said = cautions(MACHINE, sm_clock_mhz=1980.0)
    assert "clock rate: The GPU's clock rate is not locked" in said
    assert "sudo nvidia-smi -lgc 1485" in said
    assert cautions(MACHINE, sm_clock_mhz=1485.0) == ""
    assert cautions(MACHINE, sm_clock_mhz=1700.0, throttled_share=0.2).count("nvidia-smi") == 1
    advice = [{"level": "note", "text": "lock: sudo nvidia-smi -lgc 1485"}]
    calibrated = {**MACHINE, "calibration": {"advice": advice, "bandwidth": {}}}
    assert "clock rate: " not in cautions(calibrated, sm_clock_mhz=1980.0)


def test_on_a_machine_that_may_be_anothers_reports_give_no_command() -> None:
    state = {"index": 0, "sm_clock_max_mhz": 1980, "borrowed": "a virtual machine"}
    borrowed = {"torch": {"gpu_states": {"GPU-1": state}}}
    for said in (cautions(borrowed, sm_clock_mhz=1980.0), cautions(borrowed, throttled_share=0.2, sm_clock_mhz=1412.0)):
        assert said.count("is not locked, and the machine may not be yours (a virtual machine): compare layers") == 1
        assert "sudo" not in said
    text = "The GPU's clock rate is not locked, and the machine may not be yours (a container): compare layers."
    calibrated = {**borrowed, "calibration": {"advice": [{"level": "note", "text": text}], "bandwidth": {}}}
    assert "clock rate: " not in cautions(calibrated, sm_clock_mhz=1980.0)


def test_each_gpu_is_judged_by_its_own_clock_rates() -> None:
    states = {"GPU-1": {"index": 0, "sm_clock_max_mhz": 1980}, "GPU-2": {"index": 1, "sm_clock_max_mhz": 1500}}
    case = Case("rnn.torch", 512, 1024, 1, device="cuda:0")
    given = {"samples_s": [1e-3] * 5, "probe_s": 1e-4, "queue_held": 1.0}

    def said(*rates: float) -> list[str]:
        rows = [
            row(replace(case, device=f"cuda:{number}"), "time", trial, sm_clock_mhz=rate, **given)
            for number, rate in enumerate(rates)
            for trial in (1, 2)
        ]
        cautions = report_cautions(summarise(rows, PRECISION), {"torch": {"gpu_states": states}})
        return [one for one in cautions if one.startswith("clock rate")]

    assert said(1485.0, 1125.0) == []
    (second,) = said(1485.0, 1500.0)
    assert "up to 1500 MHz" in second
    assert "It was 1500 to 1500 MHz" in second
    assert len(said(1980.0, 1500.0)) == 2


def test_a_gpu_at_its_best_needs_no_sentence() -> None:
    assert cautions(throttled_share=0.0, gpu_disturbed=0.0) == ""
