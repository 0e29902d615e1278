"""What `.ci/cuda` measures, in which order, and how long it expects that to take."""

import json
import re
from pathlib import Path

import pytest
from gpu_evidence import parts
from gpu_evidence.parts import DURATIONS, FILES_WITH_GPU_TESTS, PAPERS, ROOT, Part, expectation, rehearsed

from harness.core.config import SweepConfig
from harness.core.config.compose import compose

PARTS = {part.name: part for part in parts.PARTS}
SHORT = ["facts", "smoke", "default", "clock", "table1", "gate", "record", "contract", "peaks", "flash2", "layers"]


def sweep_of(part: Part) -> SweepConfig:
    """What the sweep of a part is to measure, by its command."""
    words = [word.replace("{folder}", "folder") for word in part.command if re.match("[a-z_.]+=", word)]
    return compose(words, for_sweep=True)


def test_the_parts_come_in_the_order_of_their_worth_and_the_long_ones_last() -> None:
    families = [name for name in PARTS if name.startswith("ladder.")]
    papers = [f"papers.{name}" for name in PAPERS]
    assert list(PARTS) == [*SHORT, "widths", *families, *papers, "tests"]


def test_the_most_valuable_parts_fit_into_thirteen_minutes() -> None:
    assert sum(PARTS[name].estimated_s for name in SHORT[:6]) <= 13 * 60 + 10


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_part_is_not_begun_without_time_to_measure_anything(part: Part) -> None:
    assert 0 < part.least_s <= part.most_s
    assert part.least_s <= part.estimated_s <= part.most_s


def test_every_file_with_tests_that_need_a_gpu_is_among_those_that_are_collected() -> None:
    files = [file for file in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.cuda" in file.read_text("utf-8")]
    names = {file.relative_to(ROOT).as_posix() for file in files}
    assert names - {"tests/gpu_evidence/test_parts.py"} == set(FILES_WITH_GPU_TESTS)


def test_the_contract_leaves_out_the_layers_and_the_last_part_has_all_tests() -> None:
    assert "--deselect" in PARTS["contract"].command
    assert PARTS["tests"].command[-3:] == FILES_WITH_GPU_TESTS


@pytest.mark.parametrize("paper", PAPERS)
def test_every_paper_is_measured_on_the_gpu_as_published(paper: str) -> None:
    measured = sweep_of(PARTS[f"papers.{paper}"])
    published = compose([f"paper={paper}"], for_sweep=True)
    assert measured.axes["device"] == ("cuda",)
    assert (measured.axes, measured.points) == (published.axes, published.points)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_paper_is_rehearsed_at_a_small_size(paper: str) -> None:
    axes = sweep_of(rehearsed(PARTS[f"papers.{paper}"])).axes
    assert [axes[name] for name in ("device", "seq_len", "d_model")] == [("cuda",), (16,), (16,)]


def test_the_ladder_goes_by_families_which_have_every_layer_of_the_preset() -> None:
    families = [part for name, part in PARTS.items() if name.startswith("ladder.")]
    layers = [layer for part in families for layer in sweep_of(part).axes["impl"]]
    whole = compose(["preset=ladder", "device=cuda"], for_sweep=True).axes["impl"]
    assert sorted(layers) == sorted(whole)


def test_the_default_sweep_has_one_width_first_and_both_later() -> None:
    assert sweep_of(PARTS["default"]).axes["d_model"] == (1024,)
    assert sweep_of(PARTS["widths"]).axes["d_model"] == (1024, 2048)
    assert sweep_of(rehearsed(PARTS["default"])).axes["seq_len"] == (16, 32)


@pytest.mark.parametrize(
    ("name", "rounds", "axes"),
    [
        ("smoke", 1, {"impl": ("attention.fused", "rnn.torch"), "seq_len": (512,), "d_model": (1024,)}),
        ("table1", 2, {"d_model": (256,), "device": ("cuda",), "seq_len": (64, 128, 256, 512, 1024)}),
        ("flash2", 1, {"impl": ("sdpa.naive", "sdpa.flash"), "mask": ("causal",), "num_heads": (16,)}),
    ],
)
def test_short_sweeps_measure_the_cases_that_say_most_in_few_rounds(
    name: str, rounds: int, axes: dict[str, tuple]
) -> None:
    sweep = sweep_of(PARTS[name])
    assert {axis: sweep.axes[axis] for axis in axes} == axes
    assert sweep.precision.max_rounds == rounds


def test_a_case_without_a_time_fails_a_rehearsal_and_the_first_sweep_but_no_later_one() -> None:
    assert PARTS["smoke"].accepts == (0,)
    assert PARTS["default"].accepts == (0, 3)
    assert rehearsed(PARTS["default"]).accepts == (0,)


def test_durations_are_estimates_until_there_is_a_record_of_a_gpu_and_those_of_the_latest_one_then(
    tmp_path: Path,
) -> None:
    assert expectation([*PARTS.values()], tmp_path).seconds["facts"] == PARTS["facts"].estimated_s
    old, new = {"facts": 40, "clock": 66}, {"facts": 31}
    for gpu, date, seconds in (("Old", "2026-01-01", old), ("New", "2026-02-01", new)):
        (tmp_path / gpu).mkdir()
        record = {"gpu": gpu, "date": date, "seconds": seconds}
        (tmp_path / gpu / DURATIONS).write_text(json.dumps(record))
    expected = expectation([*PARTS.values()], tmp_path)
    assert expected.source == "as measured on New and Old, estimates for other parts"
    assert (expected.seconds["facts"], expected.seconds["clock"]) == (31, 66)
    assert expected.seconds["smoke"] == PARTS["smoke"].estimated_s
