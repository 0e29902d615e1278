"""Two baselines side by side: what got worse is named, with size and factor."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from rows import attention_time, lines
from study.check.baselines import (
    CASES,
    MACHINE,
    MEMORY,
    TIME,
    baseline,
    facts,
    facts_of,
    group,
    law,
    usual,
    usual_baseline,
    wanting,
    with_counts,
)

from harness.core.layers.layer_lookup import Layer
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case, Setting
from harness.study.check.baseline import Baseline, ClaimKept, FindingId, baseline_of
from harness.study.check.check import (
    check_remarks,
    choose_cases,
    doubtful_cases,
    judge_baseline,
    split_filters,
    with_confirmation,
)
from harness.study.check.check_rules import Outcome, Verdict, exit_status


def changed(**values: object) -> Baseline:
    return baseline(lambda case: with_counts(facts(case), **values))


def test_the_same_passes_in_every_quantity() -> None:
    found = judge_baseline(baseline(), baseline(), CASES, timed=True)
    assert {outcome.verdict.outcome for outcome in found} == {"passed"}
    quantities = ["kernel", "flops", "operations", "depth", "peak memory"]
    assert [outcome.quantity for outcome in found] == [
        *quantities * 3,
        "exponent of memory in n",
        "exponent of time in n",
    ]
    assert exit_status(found) == 0


@pytest.mark.parametrize(
    ("column", "before", "now", "said"),
    [
        ("kept_bytes", 0, 8192, "memory kept by each call 0 B → 8.00 KiB at "),
        ("weights_bytes", 1024, 5024, "weights 1.00 KiB → 4.91 KiB (×4.9) at "),
    ],
)
def test_a_leak_and_larger_weights_are_regressions(column: str, before: int, now: int, said: str) -> None:
    found = wanting(changed(**{column: before}), changed(**{column: now}))
    assert {outcome.verdict.outcome for outcome in found} == {"regression"}
    assert all(outcome.reason.startswith(said) for outcome in found)
    assert len(found) == len(CASES)


def test_memory_that_grows_faster_is_a_regression() -> None:
    now = baseline(
        lambda case: with_counts(facts(case), peak_bytes=8 * case.seq_len**2), laws={MEMORY: law(2.0), TIME: law(1.6)}
    )
    *_, of_law = wanting(baseline(), now)
    assert (of_law.verdict.outcome, of_law.quantity) == ("regression", "exponent of memory in n")


Bytes = Callable[[Case], int]
CONSTANT_TOO: Bytes = lambda case: 2**20 + 8 * case.seq_len * case.d_model  # noqa: E731
SQUARE: Bytes = lambda case: 4 * case.seq_len**2  # noqa: E731


@pytest.mark.parametrize(
    ("was", "now", "lengths", "outcome", "said"),
    [
        # Up to n = d it is less and rises by less from size to size. At n = 4,096, it is 67 MB instead of 18 MB.
        (CONSTANT_TOO, SQUARE, 6, "regression", "it changes its scaling: the law was "),
        # As one length of two tells no law.
        (CONSTANT_TOO, SQUARE, 2, "undecided", "the law of memory is not determined in the baseline"),
        # Its exponent falls from 1 to 0.6, and it is less everywhere. At n = 1,024, it is 1 GB instead of 205 MB.
        (lambda case: 200_000 * case.seq_len, lambda case: 2**20 + case.seq_len**3, 4, "regression", "it changes its"),
        # Parts that are left out make exponents larger, and costs no dearer anywhere.
        (CONSTANT_TOO, lambda case: 8 * case.seq_len * case.d_model, 6, "passed", "it is less at every size"),
        (lambda case: SQUARE(case) + 16 * case.seq_len * case.d_model, SQUARE, 6, "passed", "it is less at every size"),
        (lambda case: 9 * case.seq_len**2, SQUARE, 6, "passed", ""),
        (SQUARE, lambda case: 4 * case.seq_len, 6, "improved", "exponent of memory in n 2.00 → 1.00"),
    ],
)
def test_less_memory_that_grows_faster_changes_its_scaling(
    was: Bytes, now: Bytes, lengths: int, outcome: str, said: str
) -> None:
    cases = [Case("attention.fused", 8 * 2**i, d, 2) for i in range(lengths) for d in (256, 512, 1024)]

    def of(memory: Bytes) -> Baseline:
        measured = lines(cases, attention_time, memory)
        return baseline_of(measured, MACHINE, seed=3, harness="0.1.0")

    outcomes = {one.quantity: one for one in judge_baseline(of(was), of(now), cases, timed=False)}
    found = outcomes["exponent of memory in n"]
    assert found.verdict.outcome == outcome
    assert said in found.reason
    assert outcomes["peak memory"].verdict.outcome == "improved"


@pytest.mark.parametrize("now", [(2, 5, 3, 5), (2, 2, 2, 4), (5, 5, 5, 8), (9, 12, 17, 23)])
def test_of_an_undetermined_law_no_exponent_is_judged_that_may_be_as_before(now: tuple[int, ...]) -> None:
    cases = [Case("rnn.torch", n, 32, 1) for n in (64, 128, 256, 512)]

    def of(depths: tuple[int, ...]) -> Baseline:
        measured = [
            replace(line, depth=depth)
            for line, depth in zip(lines(cases, attention_time, CONSTANT_TOO), depths, strict=True)
        ]
        return baseline_of(measured, MACHINE, seed=3, harness="0.1.0")

    was = of((5, 5, 5, 5))
    quantities = ("depth", "exponent of depth in n")
    outcomes = [one for one in judge_baseline(was, of(now), cases, timed=False) if one.quantity in quantities]
    grown = [one.verdict.outcome for one in outcomes if one.quantity == "depth"]
    assert grown.count("regression") == sum(depth > 5 for depth in now)
    assert [one.verdict.outcome for one in outcomes if one.quantity == "exponent of depth in n"] == ["undecided"]
    told = " ".join(one.reason for one in outcomes)
    assert told.count("its exponent in n 0.00 → ") == told.count("its exponent in n 0.00 → ?")
    assert ", is " not in told


def test_one_operation_more_is_a_regression_and_one_less_an_improvement() -> None:
    assert [one.verdict.outcome for one in wanting(baseline(), changed(ops=15))] == ["regression"] * 3
    assert [one.verdict.outcome for one in wanting(baseline(), changed(ops=13))] == ["improved"] * 3


def test_a_fact_that_is_not_known_any_more_is_unmeasured() -> None:
    found = wanting(baseline(), changed(flops=None, flops_full=None))
    assert {one.verdict.outcome for one in found} == {"unmeasured"}
    assert exit_status(found) == 3


def test_the_work_without_a_mask_is_judged_where_it_is_another_number() -> None:
    was = changed(flops_full=10**9)
    assert [one.quantity for one in wanting(was, changed(flops_full=10**9 + 1))] == ["flops without a mask"] * 3


@pytest.mark.parametrize(
    ("was", "now", "verdict"),
    [
        ("ok", "oom", "unmeasured"),
        ("ok", "incorrect", "unmeasured"),
        ("oom", "oom", None),
        ("oom", "unsupported", None),
        ("unsupported", "incorrect", "unmeasured"),
        ("oom", "ok", "improved"),
    ],
)
def test_what_could_be_measured_must_still_be(was: str, now: str, verdict: str | None) -> None:
    def of(status: str) -> Baseline:
        largest = CASES[-1]
        return baseline(
            lambda case: facts_of(status, "some reason") if case == largest and status != "ok" else facts(case)
        )

    found = wanting(of(was), of(now))
    assert [one.verdict.outcome for one in found] == ([verdict] if verdict else [])
    assert verdict != "unmeasured" or "some reason" in found[0].reason


def test_a_case_without_a_single_trial_is_unmeasured() -> None:
    now = baseline(cases={case: facts(case) for case in CASES[1:]})
    assert [one.verdict.outcome for one in wanting(baseline(), now)] == ["unmeasured"]


def test_laws_are_judged_only_of_the_cases_that_they_were_found_in() -> None:
    now = baseline(laws={MEMORY: law(2.0), TIME: law(1.6)})
    chosen = CASES[:2]
    found = judge_baseline(baseline(), now, chosen, timed=True)
    assert {one.verdict.outcome for one in found} == {"passed"}
    assert len(check_remarks(baseline(), now, chosen, found)) == 1


@pytest.mark.parametrize(("value", "outcome"), [(0.5, None), (1.0, "undecided"), (1.6, "regression")])
def test_a_time_with_less_fixed_costs_or_more_of_its_fastest_term_is_undecided(
    value: float, outcome: str | None
) -> None:
    was = law(0.45, 0.4, 0.5).model_copy(update={"law": "8e-08 n + 0.0001"})
    now = law(value, value - 0.03, value + 0.03)
    found = wanting(baseline(laws={TIME: was}), baseline(laws={TIME: now}))
    assert [one.verdict.outcome for one in found] == ([outcome] if outcome else [])


def test_a_law_of_time_counts_only_if_it_is_worse_twice() -> None:
    was, steeper = baseline(), baseline(laws={MEMORY: law(1.0), TIME: law(1.9, 1.8, 2.0)})
    first = judge_baseline(was, steeper, CASES, timed=True)
    assert [one.quantity for one in first if one.verdict.outcome == "regression"] == ["exponent of time in n"]
    assert doubtful_cases(was, first) == list(CASES)
    assert exit_status(with_confirmation(first, first)) == 1
    once = with_confirmation(first, judge_baseline(was, baseline(), CASES, timed=True))
    assert exit_status(once) == 0
    assert "not when measured a second time" in once[-1].reason


@pytest.mark.parametrize(
    ("again", "verdict"),
    [
        (Verdict.UNDECIDED, Verdict.UNDECIDED),
        (Verdict.UNMEASURED, Verdict.UNMEASURED),
        (None, Verdict.UNMEASURED),
    ],
)
def test_what_the_second_measurement_of_time_cannot_tell_is_no_pass(again: Verdict | None, verdict: Verdict) -> None:
    first = [Outcome(TIME.subject, "exponent of time in n", Verdict.WORSE, "1.00", "2.00", "grown")]
    second = [replace(first[0], verdict=again)] if again else []
    assert [one.verdict for one in with_confirmation(first, second)] == [verdict]


def test_facts_that_got_worse_need_no_second_look() -> None:
    found = judge_baseline(baseline(), changed(ops=15), CASES, timed=True)
    assert doubtful_cases(baseline(), found) == []
    assert with_confirmation(found, []) == found


def test_a_law_of_time_is_not_judged_where_one_of_both_is_not_determined() -> None:
    vague = {MEMORY: law(1.0), TIME: law(2.5, 2.4, 2.6, determined=False)}
    (found,) = wanting(baseline(), baseline(laws=vague))
    assert (found.verdict.outcome, found.quantity) == ("undecided", "exponent of time in n")


def test_without_timing_nothing_of_time_is_judged() -> None:
    claim = {FindingId(*group(CASES[0]), "time"): ClaimKept(claimed="n^1.8", measured="n^1.8", verdict="confirmed")}
    found = judge_baseline(baseline(claims=claim), baseline(laws={MEMORY: law(1.0)}), CASES, timed=False)
    assert not [one for one in found if "time" in one.quantity]
    assert exit_status(found) == 0


def test_laws_and_claims_that_the_baseline_lacks_are_undecided() -> None:
    now = baseline(claims={MEMORY: ClaimKept(claimed="nd", measured="nd", verdict="confirmed")})
    found = wanting(baseline(laws={}), now)
    assert [(one.quantity, one.verdict.outcome, one.was, one.now) for one in found] == [
        ("law of memory", "undecided", "", "some n"),
        ("law of time", "undecided", "", "some n"),
        ("claim of memory", "undecided", "", "confirmed"),
    ]
    assert {one.reason for one in found} == {"no earlier value is known, so this one cannot be judged"}
    assert exit_status(found) == 0
    assert [one.quantity for one in wanting(baseline(laws={}), now, timed=False)] == [
        "law of memory",
        "claim of memory",
    ]


def test_a_law_that_the_measurement_lacks_is_unmeasured() -> None:
    (memory, time) = wanting(baseline(), baseline(laws={}))
    assert (memory.quantity, memory.verdict.outcome) == ("law of memory", "unmeasured")
    assert (time.quantity, time.verdict.outcome) == ("law of time", "unmeasured")


def test_a_cost_that_fell_to_nothing_is_an_improvement_without_a_law() -> None:
    before = [replace(line, flops_full=line.flops) for line in usual()]
    before[-1] = replace(before[-1], status="oom", reason="out of memory", flops=None, flops_full=None)
    free = [replace(line, flops=line.flops and 0, flops_full=line.flops and 0) for line in before]
    was, now = (baseline_of(lines, MACHINE, seed=3, harness="0.1.0") for lines in (before, free))
    outcomes = judge_baseline(was, now, was.cases, timed=False)
    assert exit_status(outcomes) == 0
    assert "law of flops" not in {one.quantity for one in outcomes}
    assert {one.verdict for one in outcomes if one.quantity == "flops"} == {Verdict.BETTER}


def test_no_law_is_judged_of_a_baseline_from_which_a_case_was_removed() -> None:
    usual = usual_baseline()
    fused = ("attention.fused", Setting.of(CASES[0]))
    assert {law.cases for name, law in usual.laws.items() if name.group == fused} == {24}  # 6 n, 2 d and 2 h
    lost = Case("attention.fused", 512, 128, 2)
    was = replace(usual, cases={case: facts for case, facts in usual.cases.items() if case != lost})
    outcomes = judge_baseline(was, usual, was.cases, timed=True)
    assert {one.impl for one in outcomes if one.quantity.startswith(("exponent", "law", "claim"))} == {
        "attention.naive",
        "rnn.torch",
    }
    assert check_remarks(was, usual, was.cases, outcomes) == [
        "attention.fused: its laws in the baseline are of other cases than the baseline holds, so no law or claim is "
        "judged."
    ]
    assert check_remarks(usual, usual, usual.cases, judge_baseline(usual, usual, usual.cases, timed=True)) == []


def test_a_newly_refuted_claim_is_a_regression() -> None:
    name = FindingId(*group(CASES[0]), "memory")
    was, now = (
        baseline(claims={name: ClaimKept(claimed="O(n·d)", measured=measured, verdict=verdict)})
        for measured, verdict in (("n^1.00", "confirmed"), ("n^2.00", "refuted"))
    )
    (found,) = wanting(was, now)
    assert found.verdict.outcome == "regression"


def test_cases_that_differ_in_anything_have_names_of_their_own() -> None:
    others = [
        replace(CASES[0], **{axis: value})
        for axis, value in {
            "batch_size": 2,
            "mode": "train",
            "dtype": "bfloat16",
            "device": "cuda",
            "threads": 2,
            "allocator": "fresh",
            "mask": "causal",
            "padding_fraction": 0.5,
            "kv_len": 8,
        }.items()
    ]
    cases: list[Case] = [CASES[0], *others]
    held = baseline(cases={case: facts(case) for case in cases}, laws={})
    subjects = {one.subject for one in judge_baseline(held, held, cases, timed=False)}
    assert len(subjects) == len(cases)


def test_the_values_of_an_axis_are_listed_as_numbers() -> None:
    first, second = CASES[0], replace(CASES[0], impl="own:Layer")
    cases = [*(replace(first, kv_len=m) for m in (128, 256)), *(replace(second, kv_len=m) for m in (64, 1024))]
    with pytest.raises(UsageError, match=r"kv_len=32: no case of b\.json has it; it has 64,128,256,1024"):
        choose_cases(cases, ["kv_len=32"], "b.json")


def test_an_error_that_grows_by_more_than_the_factor_is_a_regression() -> None:
    was = baseline(lambda case: with_counts(facts(case), output_error=3e-7, gradient_error=None))
    now = baseline(lambda case: with_counts(facts(case), output_error=3e-6, gradient_error=1e-6))
    found = [one for one in judge_baseline(was, now, CASES, timed=False) if one.quantity == "output error"]
    assert {(one.verdict.outcome, one.was, one.now) for one in found} == {("regression", "3.0e-07", "3.0e-06")}
    assert "by more than error_factor=4" in found[0].reason
    kept = judge_baseline(was, now, CASES, timed=False, error_factor=20.0)
    assert all(one.verdict.outcome == "passed" for one in kept if one.quantity == "output error")


def test_an_option_that_is_the_default_of_one_layer_chooses_no_usual_case_of_another() -> None:
    of_64, of_128 = (replace(CASES[0], impl=impl) for impl in ("own:Of64", "own:Of128"))
    given = replace(of_128, options="window=64")
    cases = {
        case: with_counts(facts(case), own_axes=f'{{"window": ["w", {default}]}}')
        for case, default in ((of_64, 64), (of_128, 128), (given, 128))
    }
    assert set(choose_cases(cases, split_filters(["options=window=64"])[0], "b.json")) == {of_64, given}
    assert set(choose_cases(cases, split_filters(["options=none,window=128"])[0], "b.json")) == {of_64, of_128}
    with pytest.raises(UsageError, match=r"options=window=32: no case of b\.json has it; it has none,window=64"):
        choose_cases(cases, split_filters(["options=window=64,window=32"])[0], "b.json")


def test_cases_come_by_the_size_of_their_options() -> None:
    cases = [replace(CASES[0], options=options) for options in ("none", "block=64", "block=128", "kind=auto")]
    assert choose_cases(cases[::-1], [], "b.json") == cases


def test_a_default_that_no_axis_declares_chooses_the_usual_case_as_in_a_sweep() -> None:
    usual, other = (replace(CASES[0], options=options) for options in ("none", "block=64"))
    cases = {case: facts(case) for case in (usual, other)}
    axes = split_filters(["layer.block=32"])[0]
    assert choose_cases(cases, axes, "b.json", lambda impl, env: Layer(options={"block": "32"})) == [usual]
    with pytest.raises(UsageError, match=r"options=block=32: no case of b\.json has it"):
        choose_cases(cases, axes, "b.json", lambda impl, env: Layer(options={"block": "16"}))
