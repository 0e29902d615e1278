"""A claim holds, does not hold, or cannot be told: by intervals, and never by a machine's milliseconds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from extras.papers.settings import SIZES, paper, timed
from screens.text_file import titled
from syrupy import SnapshotAssertion

from harness.core.results.columns import CaseResult
from harness.extras.papers.claims import PublishedFindings, figures_beside, judge_claims
from harness.study.claims.claim_rules import Judgement
from harness.study.report.document import markdown

CONFIRMED, REFUTED, UNDETERMINED = "confirmed", "refuted", "undetermined"
NOT_MEASURED = "not measured"


def judge(lines: list[CaseResult], of: str = "sdpa.naive", quantity: str = "time_ms", **claim: Any) -> Judgement:
    [one] = judge_claims(paper(claims=[{"says": "C", "of": of, "quantity": quantity, **claim}]), lines)
    return one.judgement


def pair(ratio: Callable[[int], float]) -> list[CaseResult]:
    """sdpa.naive takes `ratio(n)` times as long as sdpa.flash."""
    return [*timed("sdpa.naive", lambda n: 1e-3 * ratio(n)), *timed("sdpa.flash", lambda n: 1e-3)]


RATIO = "sdpa.naive / sdpa.flash"
ALONE = "n was not varied alone, by a factor of 2 at least"


@pytest.mark.parametrize(
    ("kind", "wanted", "verdict"),
    [
        ("at_least", 1.9, CONFIRMED),
        ("at_least", 2.1, REFUTED),
        ("at_least", 2.0, UNDETERMINED),
        ("at_most", 2.1, CONFIRMED),
        ("at_most", 1.9, REFUTED),
        ("at_most", 2.0, UNDETERMINED),
    ],
)
def test_a_ratio_is_held_against_a_bound_with_its_interval(kind: str, wanted: float, verdict: str) -> None:
    assert judge(pair(lambda n: 2.0), RATIO, **{kind: wanted}).verdict == verdict


def test_a_bound_must_hold_at_every_point_that_it_is_of() -> None:
    lines = pair(lambda n: 0.5 if n == 512 else 2.0)
    one = judge(lines, RATIO, at_least=1)
    assert one.verdict == REFUTED
    assert judge(lines, RATIO, at_least=1, at={"seq_len": [256, 1024]}).verdict == CONFIRMED


@pytest.mark.parametrize(("ratio", "verdict"), [(20.0, CONFIRMED), (30.0, REFUTED), (25.4, UNDETERMINED)])
def test_about_a_number_is_within_a_share_of_it(ratio: float, verdict: str) -> None:
    assert judge(pair(lambda n: ratio), RATIO, about=20.4, within=0.25).verdict == verdict


@pytest.mark.parametrize(("power", "verdict"), [(2.0, CONFIRMED), (1.0, REFUTED), (1.91, UNDETERMINED)])
def test_a_power_of_n_is_read_between_the_largest_and_half_of_it(power: float, verdict: str) -> None:
    one = judge(timed("sdpa.naive", lambda n: 1e-9 * n**power), exponent=2, within=0.1)
    assert one.verdict == verdict
    assert one.measured.startswith(f"n^{power:.2f}")
    assert one.measured.endswith("from n = 1024 to 2048")


def test_a_power_of_what_is_counted_is_exact() -> None:
    one = judge(timed("sdpa.naive", lambda n: 1.0), quantity="memory_MiB", exponent=2, within=0.001)
    assert (one.measured, one.verdict) == ("n^2.00 from n = 1024 to 2048", CONFIRMED)


def test_along_n_only_the_widest_layers_are_looked_at() -> None:
    narrow = [replace(line, d_model=64, time_s=1.0) for line in timed("sdpa.naive", lambda n: 1.0)]
    assert judge([*narrow, *timed("sdpa.naive", lambda n: n / 1e6)], exponent=1, within=0.1).verdict == CONFIRMED


@pytest.mark.parametrize(
    ("lines", "between", "verdict", "measured"),
    [
        (pair(lambda n: n / 700), [512, 1024], CONFIRMED, "from n = 700 (512 to 1024) on"),
        (pair(lambda n: n / 700), [1025, 2048], REFUTED, "from n = 700 (512 to 1024) on"),
        (pair(lambda n: n / 700), [700, 1024], UNDETERMINED, "from n = 700 (512 to 1024) on"),
        (pair(lambda n: 2.0), [0, 512], CONFIRMED, "at every n measured, from 256 on"),
        (pair(lambda n: 2.0), [0, 128], UNDETERMINED, "at every n measured, from 256 on"),
        (pair(lambda n: 2.0), [100, 512], UNDETERMINED, "at every n measured, from 256 on"),
        (pair(lambda n: 2.0), [512, 1024], REFUTED, "at every n measured, from 256 on"),
        (pair(lambda n: 0.5), [512, 1024], REFUTED, "not below n = 2048"),
        (pair(lambda n: 0.5), [4096, 8192], UNDETERMINED, "not below n = 2048"),
        (pair(lambda n: 1.0), [512, 1024], UNDETERMINED, "undecided: within the measurement error"),
    ],
)
def test_one_overtakes_another_within_the_published_range_or_elsewhere(
    lines: list[CaseResult], between: list[int], verdict: str, measured: str
) -> None:
    one = judge(lines, RATIO, overtakes=between)
    assert (one.verdict, one.measured) == (verdict, measured)


def masked(ratio: float, **changed: Any) -> list[CaseResult]:
    """sdpa.naive takes twice as long as sdpa.flash, and under a causal mask `ratio` times as long."""
    free, causal = pair(lambda n: 2.0), pair(lambda n: ratio)
    return [*free, *(replace(line, mask="causal", **changed) for line in causal)]


@pytest.mark.parametrize(("ratio", "verdict"), [(3.0, CONFIRMED), (1.5, REFUTED), (2.02, UNDETERMINED)])
def test_two_ratios_are_held_against_each_other_at_the_same_point(ratio: float, verdict: str) -> None:
    between = {"at": {"mask": "causal"}, "against": {"mask": "none"}}
    one = judge(masked(ratio), RATIO, at_least=1, **between)
    assert one.verdict == verdict
    assert one.measured.startswith(f"{ratio / 2:.3g} (")
    assert one.measured.count("at n = ") == len(SIZES)


def test_four_intervals_make_that_of_a_ratio_of_ratios() -> None:
    one = judge(masked(3.0), RATIO, at_least=1, at={"mask": "causal", "seq_len": 512}, against={"mask": "none"})
    assert one.measured == "1.5 (1.47 to 1.53)"  # four times 1 %, as independent errors add up


def test_a_point_that_differs_in_more_is_no_point_to_be_held_against() -> None:
    between = {"at": {"mask": "causal"}, "against": {"mask": "none"}}
    one = judge(masked(3.0, batch_size=7), RATIO, at_least=1, **between)
    assert one == Judgement("", NOT_MEASURED, "no case of it was measured")
    lost = [replace(line, time_s=None, status="oom") if line.mask == "none" else line for line in masked(3.0)]
    assert judge(lost, RATIO, at_least=1, **between).reason == "no number was measured: sdpa.naive oom, sdpa.flash oom"


def test_of_what_was_not_measured_nothing_is_claimed() -> None:
    assert judge([], at_least=1) == Judgement("", NOT_MEASURED, "no case of it was measured")
    broken = [replace(line, time_s=None, status="oom") for line in timed("sdpa.naive", lambda n: 1.0)]
    assert judge(broken, at_least=1) == Judgement("", UNDETERMINED, "no number was measured: oom")


@pytest.mark.parametrize("status", ["oom", "incorrect", "timeout"])
@pytest.mark.parametrize("claim", [{"at_least": 1}, {"overtakes": [0, 512]}, {"about": 2.0, "within": 0.1}])
def test_no_claim_is_confirmed_where_a_case_has_no_number(claim: dict[str, Any], status: str) -> None:
    lines = pair(lambda n: 2.0)
    assert judge(lines, RATIO, **claim).verdict == CONFIRMED
    failed = [replace(line, time_s=None, status=status) if line.seq_len == 2048 else line for line in lines]
    judged = judge(failed, RATIO, **claim)
    ended = f"sdpa.naive {status}, sdpa.flash {status}"
    assert (judged.verdict, judged.reason) == (UNDETERMINED, f"no number was measured at n = 2048: {ended}")
    assert judge(failed, RATIO, at_least=3).verdict == REFUTED


def test_steps_of_blocks_between_lengths_close_together_refute_no_power() -> None:
    lines = [
        replace(line, peak_bytes=100 * 64 * -(-line.seq_len // 64) - 200)
        for line in timed("sdpa.naive", lambda n: 1.0, sizes=(256, 512, 1000, 1024))
    ]
    assert judge(lines, quantity="memory_MiB", exponent=1, within=0.01).verdict == CONFIRMED


def test_a_single_trial_decides_nothing() -> None:
    lines = [replace(line, time_lo_s=None, time_hi_s=None) for line in pair(lambda n: 5.0)]
    assert judge(lines, RATIO, at_least=1).verdict == UNDETERMINED
    assert judge(lines, exponent=0, within=0.1).verdict == UNDETERMINED


def test_one_n_is_no_power() -> None:
    assert judge(timed("sdpa.naive", lambda n: 1.0, sizes=SIZES[:1]), exponent=1, within=0.1).reason == ALONE


def test_n_that_is_varied_together_with_the_batch_says_nothing_of_a_power_of_n() -> None:
    lines = [replace(line, batch_size=4096 // line.seq_len) for line in timed("sdpa.naive", lambda n: 1.0)]
    assert judge(lines, exponent=1, within=0.1).reason == ALONE


def test_a_papers_claims_and_figures_stand_beside_what_was_measured(snapshot: SnapshotAssertion) -> None:
    table = {
        **{"title": "Depth | and time", "quantity": "time_ms", "source": "table 1", "second_hand": "from hearsay"},
        **{"along": "seq_len", "columns": [512, 1024, 4096]},
        "rows": {"sdpa.naive": [1.5, 2, "oom"], "sdpa.naive / sdpa.flash": [3, None, None]},
    }
    of = {"of": "sdpa.naive / sdpa.flash", "quantity": "time_ms"}
    claim = [
        {"says": "twice as fast | everywhere", **of, "at_least": 1.9, "source": "figure 2 | left"},
        {"says": "three times as fast", **of, "at_least": 3},
        {"says": "about twice", **of, "about": 2.0, "within": 0.1, "at": {"seq_len": 64}},
        {"says": "time grows as n²", "of": "sdpa.naive", "quantity": "time_ms", "exponent": 2, "within": 0.1},
        {"says": "slower from some n on", **of, "overtakes": [100, 512]},
    ]
    about = {"source": "Somebody 2026", "hardware": "a machine", "setting": "forward", "notes": ["It is an <example>"]}
    read = paper(tables=[table], claims=claim, **about)
    lines = [*timed("sdpa.naive", lambda n: 2e-3), *timed("sdpa.flash", lambda n: 1e-3)]
    found = PublishedFindings(read, figures_beside(read, lines), judge_claims(read, lines))
    report = markdown(found.section("a processor"))
    assert titled({"terminal": "\n".join(found.sentences), "report.md": report}) == snapshot
