"""What `compare` says of a ratio that grows with n, from simulated blocks of known ratios."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from extras.compare.comparisons import CASE, RULES, blocks, line
from extras.compare.paired.simulated import KINDS, Machine

from harness.core.model.sweep_axes import Case
from harness.extras.compare.paired_verdicts import Blocks, MeasuredBlocks
from harness.extras.compare.report import Comparison, compare_sides, comparison_sentences
from harness.study.check.check_rules import Verdict

LENGTHS = (128, 256, 512, 1024, 2048, 4096)
# From +0.5 % at n = 128 to +2.9 % at n = 4096, by a power of n: each is below the threshold of 3 %.
POWER = math.log(1.029 / 1.005) / math.log(32)
GROWING = [1.005 * (length / 128) ** POWER for length in LENGTHS]


def cases(lengths: Sequence[int], settings: int = 1) -> list[Case]:
    return [replace(CASE, seq_len=n, d_model=16 * (at + 1)) for at in range(settings) for n in lengths]


def compare(of: Sequence[Case], measured: Sequence[Blocks], control: float = 1.0) -> Comparison:
    lines = {case: line(case) for case in of}
    every = MeasuredBlocks(list(measured), {0: blocks(control)})
    return compare_sides([(case, case) for case in of], range(len(of)), every, lines, lines, RULES)


def simulated(ratios: Sequence[float], kind: str, seed: int, number: int = RULES.fewest_blocks) -> list[Blocks]:
    machine = Machine(list(ratios), KINDS[kind], seed)
    measured = [Blocks() for _ in ratios]
    for _ in range(number):
        for case, of_case in enumerate(measured):
            of_case.first.append(machine.take(case, False))
    return measured


def exact(ratios: Sequence[float]) -> list[Blocks]:
    return [blocks(ratio) for ratio in ratios]


def test_a_ratio_that_grows_with_n_is_named_though_each_change_is_below_the_threshold() -> None:
    found = compare(cases(LENGTHS), exact(GROWING))
    assert {pair.verdict for pair in found.compared} <= {Verdict.EQUIVALENT, Verdict.UNDECIDED}
    (sentence,) = found.scaling
    assert sentence == (
        "attention.fused n=4096 d=16 h=2: its scaling differs: the ratio of the times goes as n^0.0068 (0.0068 to "
        "0.0068) from n=128 on."
    )
    assert round(POWER, 4) == 0.0068
    assert sentence in comparison_sentences(found)


def test_a_ratio_that_falls_with_n_falls() -> None:
    (sentence,) = compare(cases(LENGTHS), exact([1 / ratio for ratio in GROWING])).scaling
    assert "goes as n^-0.0068" in sentence


@pytest.mark.parametrize(
    ("lengths", "ratios", "control"),
    [
        (LENGTHS, [1.02] * 6, 1.0),
        ((128, 4096), [1.005, 1.029], 1.0),
        (LENGTHS, GROWING, 1.2),
        (LENGTHS, [1.0] * 5 + [1.02], 1.0),
        (LENGTHS, [1.0, 1.0, 1.2, 0.9, 1.1, 1.0], 1.0),
    ],
)
def test_the_same_ratio_two_lengths_a_failed_control_and_a_single_length_tell_of_no_growth(
    lengths: Sequence[int], ratios: Sequence[float], control: float
) -> None:
    found = compare(cases(lengths), exact(ratios), control)
    assert not [sentence for sentence in comparison_sentences(found) if "scaling" in sentence]


def test_a_case_without_the_blocks_of_the_first_look_is_left_out() -> None:
    measured = exact([*GROWING, 3.0])
    measured[-1].first = measured[-1].first[: RULES.fewest_blocks - 1]
    (sentence,) = compare(cases((*LENGTHS, 8192)), measured).scaling
    assert "n=4096 d=16 h=2" in sentence


# Where a case's blocks depend on those before, nothing is promised.
INDEPENDENT = [kind for kind in KINDS if kind != "drifting"]


@pytest.mark.parametrize("kind", INDEPENDENT)
def test_at_most_one_run_in_20_names_a_growth_that_is_none(kind: str) -> None:
    runs, of = 150, cases(LENGTHS, settings=2)
    named = sum(bool(compare(of, simulated([1.02] * len(of), kind, seed)).scaling) for seed in range(runs))
    assert named <= 0.05 * runs + 2.4 * math.sqrt(0.05 * 0.95 * runs)


@pytest.mark.parametrize(("kind", "power"), [("parents 0.5 %", 0.97), ("parents 1 %", 0.85)])
def test_a_growth_below_the_threshold_is_found(kind: str, power: float) -> None:
    found = [compare(cases(LENGTHS), simulated(GROWING, kind, seed)).scaling for seed in range(100)]
    assert sum(map(len, found)) >= power * len(found)


def test_heads_of_one_length_have_no_scaling() -> None:
    heads, bases = [CASE] * 3, cases((128, 256, 512))
    lines = {case: line(case) for case in [*heads, *bases]}
    every = MeasuredBlocks(exact([1.0, 1.1, 1.2]), {0: blocks(1.0)})
    found = compare_sides(list(zip(bases, heads, strict=True)), range(3), every, lines, lines, RULES)
    assert found.scaling == ()
