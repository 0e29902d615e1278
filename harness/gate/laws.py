"""Outcomes of the cost models and claims of an impl in one setting. All of its cases were measured again."""

from collections.abc import Callable, Collection, Iterator, Mapping

from harness.gate.baseline import TIMED, ClaimKept, LawKept
from harness.gate.baseline_text import AXES
from harness.gate.judged import exponent_text, judge_claim, judge_determined, judge_exponent
from harness.gate.keyed import Named
from harness.gate.outcome import PASSED, Outcome
from harness.stats.paired.verdicts import UNMEASURED


def growth(was: Mapping[str, LawKept], now: Mapping[str, LawKept]) -> dict[str, str]:
    """Map a metric to the change of its exponents, as in `; its exponent in n 1.00 → 2.00`.

    Only exponents that differ as printed are mentioned.
    """
    said: dict[str, str] = {}
    for metric in was.keys() & now.keys():
        for axis in AXES:
            before, after = (
                exponent_text(getattr(law, f"exponent_{axis}"), bare=True) for law in (was[metric], now[metric])
            )
            if before and after and before != after:
                said[metric] = f"{said.get(metric, '')}; its exponent in {axis} {before} → {after}"
    return said


def judge_law(
    name: Named, was: LawKept, now: LawKept | None, grown: bool, eased: Callable[[str], bool], note: str
) -> Iterator[Outcome]:
    """Yield an outcome for each axis along which the baseline knows how the cost grows.

    If `now` is None, the only outcome is `unmeasured`. `judge_exponent` explains `grown` and, for each axis,
    `eased(axis)`.
    """
    metric = name.what
    if now is None:
        why = "it had a law, and has none any more"
        yield Outcome(name.subject, f"law of {metric}", UNMEASURED, was.law, "", f"{why}{note}")
        return
    open_question = judge_determined(was, now) if metric == TIMED else None
    for axis in AXES:
        before, after = (getattr(law, f"exponent_{axis}") for law in (was, now))
        found = judge_exponent(metric, before, after, grown, eased(axis))
        if found is None:
            continue
        verdict, why = open_question or found
        quantity, texts = f"exponent of {metric} in {axis}", (exponent_text(before), exponent_text(after))
        if verdict != PASSED and not why:
            laws = f"; the law was {was.law}, is {now.law}" if was.law != now.law else ""
            why = f"{quantity} {texts[0]} → {texts[1]}{laws}"
        yield Outcome(name.subject, quantity, verdict, *texts, f"{why}{note}" if why else "")


def judge_claims(
    was: Mapping[Named, ClaimKept], now: Mapping[Named, ClaimKept], names: Collection[Named], note: str
) -> Iterator[Outcome]:
    """Yield an outcome for each claim in `names`."""
    for name in names:
        before, after = was[name], now.get(name)
        verdict, why = judge_claim(before, after, name.what == TIMED)
        texts = before.verdict, after.verdict if after is not None else ""
        yield Outcome(name.subject, f"claim of {name.what}", verdict, *texts, f"{why}{note}" if why else "")
