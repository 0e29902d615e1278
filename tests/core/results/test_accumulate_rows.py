"""What a row must hold to count, and that rows accumulated together in any number of parts."""

import json
from typing import Any

import pytest
from rows import PRECISION, row

from harness.core.model.sweep_axes import Case
from harness.core.results.row_files import RunAccumulator
from harness.core.results.summarise import Trials, _lines_of

CASE = Case("attention.fused", 64, 32, 2)


def timed(**fields: Any) -> dict[str, Any]:
    return {**row(CASE, "time", 1, samples_s=[1.0, 2.0], probe_s=None), **fields}


def facts(**fields: Any) -> dict[str, Any]:
    return row(CASE, "facts", **fields)


def without(whole: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in whole.items() if key != name}


@pytest.mark.parametrize(
    "whole", [timed(), timed(minor_faults=None), facts(), facts(flops=3, transient_bytes=-1, backend="ATen")]
)
def test_a_whole_row_counts(whole: dict[str, Any]) -> None:
    assert RunAccumulator().add(whole)


BAD_TIMED = [
    {"samples_s": []},
    {"samples_s": None},
    {"samples_s": "1.0"},
    {"samples_s": [1.0, "2.0"]},
    {"samples_s": [1.0, None]},
    {"samples_s": [1.0, float("nan"), 2.0]},
    {"samples_s": [float("inf")]},
    {"samples_s": [-1.0]},
    {"samples_s": [0.0]},
    {"samples_s": [10**400]},
    {"samples_s": [1e308]},
    {"samples_s": [1e-300]},
    {"case": {**CASE.as_dict(), "seq_len": -64}},
    {"case": {**CASE.as_dict(), "batch_size": 0}},
    {"wall_s": None},
    {"wall_s": "long"},
    {"wall_s": 0},
    {"probe_s": "fast"},
    {"probe_s": -1.0},
    {"minor_faults": "many"},
    {"cpu_s": [1.0]},
    {"calls_per_sample": None},
    {"round": "1"},
    {"round": None},
    {"round": 2**80},
    {"family": None},
    {"status": ["ok"]},
    {"status": "fine"},
    {"at": "soon"},
    {"purpose": 3},
    {"case": None},
    {"case": "attention.fused"},
    {"case": {"impl": "x"}},
    {"case": {**CASE.as_dict(), "seq_len": "64"}},
    {"case": {**CASE.as_dict(), "seq_len": [64]}},
    {"case": {**CASE.as_dict(), "threads": 1.5}},
    {"case": {**CASE.as_dict(), "mode": None}},
]


@pytest.mark.parametrize("bad", BAD_TIMED, ids=lambda bad: json.dumps(bad)[:40])
def test_a_row_with_something_else_in_the_place_of_a_value_is_refused_without_a_trace(bad: dict[str, Any]) -> None:
    accumulated = RunAccumulator()
    assert not accumulated.add(timed(**bad))
    assert not accumulated.cases
    assert not accumulated.records


@pytest.mark.parametrize("name", ["case", "family", "purpose", "round", "status", "samples_s", "wall_s", "probe_s"])
def test_a_timed_row_without_what_it_must_hold_is_refused(name: str) -> None:
    assert not RunAccumulator().add(without(timed(), name))


@pytest.mark.parametrize(
    "bad",
    [
        facts(flops="many"),
        facts(flops=float("nan")),
        facts(depth=float("inf")),
        facts(ops=2**63),
        facts(min_bytes=1e300),
        facts(peak_bytes=-1),
        facts(backend=3),
        facts(block_sizes=3),
        facts(facts_unknown="flops"),
        facts(facts_unknown=[1]),
        without(facts(), "reason"),
        without(facts(status="oom"), "reason"),
        {**facts(status="oom"), "reason": 3},
    ],
)
def test_facts_and_failures_that_cannot_be_are_refused(bad: dict[str, Any]) -> None:
    assert not RunAccumulator().add(bad)


def test_a_bad_row_does_not_undo_a_good_one() -> None:
    accumulated = RunAccumulator()
    assert accumulated.add(timed())
    assert not accumulated.add(timed(round=2, minor_faults="many"))
    (line,) = _lines_of(accumulated, Trials(accumulated), PRECISION)
    assert (line.trials, line.time_s) == (1, 1.0)
