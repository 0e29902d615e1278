"""Turns as the trial's own process serves them: a line of JSON for every two bytes."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.trial import environment, reuse_between_calls
from harness.core.trial.compilation import CompiledAgain
from harness.core.trial.timing import timed_trial
from harness.core.trial.timing.timed_trial import take_turns


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Case]]:
    """The cases that a layer was built for, in order; this process stays on its CPUs."""
    cases: list[Case] = []
    build = timed_trial.build

    def counted(case: Case, seed: int) -> Any:
        cases.append(case)
        return build(case, seed)

    monkeypatch.setattr(timed_trial, "build", counted)
    monkeypatch.setattr(environment, "affinity_mover", lambda threads: lambda number: None)
    monkeypatch.setattr(timed_trial, "compilations", lambda: 0)  # other tests may have compiled in this process
    yield cases
    timed_trial.gc.enable()


def serve(case: Case, asked: list[tuple[int, int]], into: Path) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """What came of the trial, and the lines that it wrote."""
    theirs, ours = os.pipe()
    os.write(ours, b"".join(map(bytes, asked)))
    os.close(ours)
    with into.open("wb") as answer:
        outcome = take_turns(case, 0, 0.001, 0.01, theirs, answer.fileno())
    os.close(theirs)
    return outcome, [json.loads(line) for line in into.read_text().splitlines()]


def test_first_it_says_that_it_is_warm_then_a_line_a_turn(case: Case, built: list[Case], tmp_path: Path) -> None:
    outcome, lines = serve(case, [(0, 0), (1, 0), (0, 0)], tmp_path / "said")
    assert outcome == {"turns": 3, "threads_after": 0.0}
    assert lines[0].keys() == {"call_s"}
    assert [line.keys() for line in lines[1:]] == [{"min_s", "mean_s"}] * 3
    assert all(0 < line["min_s"] <= line["mean_s"] for line in lines[1:])


def test_without_a_turn_it_ends(case: Case, built: list[Case], tmp_path: Path) -> None:
    assert serve(case, [], tmp_path / "said")[0] == {"turns": 0, "threads_after": 0.0}


def test_the_layer_is_built_anew_only_when_asked(case: Case, built: list[Case], tmp_path: Path) -> None:
    serve(case, [(0, 0), (0, 1), (0, 0), (0, 1)], tmp_path / "said")
    assert built == [case] * 3


def test_each_sample_of_a_turn_is_of_a_new_input(
    built: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []
    for name in ("check_call_times", "check_last_call"):
        monkeypatch.setattr(reuse_between_calls, name, lambda *_: None)
    monkeypatch.setattr(
        reuse_between_calls, "take_last_call", lambda work, *_: computed.append(len(work.layer.results))
    )
    serve(Case("core.faults.layers:KeepsByFirstRow", 16, 8, 1), [(0, 0)] * 2, tmp_path / "said")
    assert computed[0] > 2


def test_the_place_is_the_one_asked_for(
    case: Case, built: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    monkeypatch.setattr(environment, "affinity_mover", lambda threads: taken.append)
    serve(case, [(3, 0), (255, 1)], tmp_path / "said")
    assert taken == [3, 255]


def test_places_are_of_as_many_cpus_as_the_case_has_threads(
    case: Case, built: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(environment, "affinity_mover", lambda threads: asked.append(threads) or (lambda number: None))
    serve(case, [(0, 0)], tmp_path / "said")
    assert asked == [case.threads]


def test_a_layer_that_compiles_is_not_built_anew(
    case: Case, built: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_trial, "compilations", lambda: 1)
    serve(case, [(0, 0), (0, 1)], tmp_path / "said")
    assert built == [case]


def test_compiling_while_it_is_timed_is_an_error(
    case: Case, built: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(1, 100))
    monkeypatch.setattr(timed_trial, "compilations", lambda: next(numbers))
    with pytest.raises(CompiledAgain, match="compiled again while it was timed"):
        serve(case, [(0, 0)], tmp_path / "said")
