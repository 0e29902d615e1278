"""`claims.csv`: what theory claims of each layer, compared with the measurements."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING

from harness.analysis.claim_rules import is_masked, judge_depth, judge_memory, judge_path, judge_work
from harness.analysis.claims import CONFIRMED, REFUTED, UNDETERMINED, Judgement, claims_of, judge_time
from harness.analysis.fitted_laws import FittedLaw
from harness.analysis.series import Setting, series_groups
from harness.claims import Polynomial, parse, work_of
from harness.errors import UsageError
from harness.fit.laws import Law
from harness.results.table import CaseResult

if TYPE_CHECKING:
    import pandas as pd

VERDICTS = (CONFIRMED, REFUTED, UNDETERMINED)
# The claims that are judged in each mode. Depth, path and memory are claimed of a forward pass.
_BY_MODE = {
    "forward": ("work", "memory", "depth", "path"),
    "train": ("work_train",),
    "backward": ("work_backward",),
    "decode": ("work_decode",),
}
_BY_ORDER = ("memory", "depth", "path")
# Stands for a claim of FLOPs that is made case by case and not as one polynomial.
OWN_FORMULA = "its own formula"


@dataclass(frozen=True)
class Verdict:
    """One claim and the verdict on it.

    `quantity`: `work`, `work_train`, `work_backward`, `work_decode`, `memory`, `depth`, `path` or `time`. The claim of
    `work_backward` is the difference of `work_train` and `work`. Both `claimed` and `measured` are written as in theory
    (`8nd² + 4n²d`, `O(n²·d)`). The `verdict` is one of `VERDICTS`, with its `reason` in words.
    """

    impl: str
    setting: Setting
    quantity: str
    claimed: str
    measured: str
    verdict: str
    reason: str


def verdicts(lines: Iterable[CaseResult], laws: Iterable[FittedLaw]) -> list[Verdict]:
    """Judge every claim of every layer, in each setting whose mode the claim covers.

    Time is judged in every mode that has a claim of work.
    """
    fitted = {(law.series.impl, law.series.setting, law.series.metric): law for law in laws}
    found = []
    for (impl, setting), members in series_groups(lines).items():
        of_time, of_work = (fitted.get((impl, setting, metric)) for metric in ("time", "flops"))
        for quantity, claimed, judgement in _verdict_row(members, setting.mode, of_time, of_work):
            found.append(Verdict(impl, setting, quantity, claimed, **vars(judgement)))
    return found


def _verdict_row(
    lines: Sequence[CaseResult], mode: str, of_time: FittedLaw | None, of_work: FittedLaw | None
) -> Iterator[tuple[str, str, Judgement]]:
    """Yield (quantity, claim as text, judgement) for each claim of one layer in one setting."""
    stated = claims_of(lines)
    read, unreadable = _read(stated)
    law = of_work.law if of_work is not None else None
    if lines[0].kv_len:  # claims cover only self-attention over one length, not a source of another length
        return
    if mode == "backward" and (difference := work_of(read, mode)):
        read["work_backward"] = difference
        stated = {**stated, "work_backward": str(difference)}
    for quantity in _BY_MODE.get(mode, ()):
        text = f"O({stated.get(quantity)})" if quantity in _BY_ORDER else stated.get(quantity, OWN_FORMULA)
        if quantity in unreadable:
            yield quantity, text, Judgement("", UNDETERMINED, unreadable[quantity])
        elif quantity in read:
            yield quantity, text, _judge(quantity, lines, read[quantity], law)
        elif quantity not in _BY_ORDER and any(line.flops_claimed is not None for line in lines):
            yield quantity, text, judge_work(lines, None, law)
    work = work_of(read, mode)
    if work is not None and mode in _BY_MODE:
        # Decoding one token is one step, however many tokens came before.
        claimed, one = judge_time(lines, of_time, work, read.get("depth") if mode != "decode" else None)
        yield "time", claimed, _without_mask(lines, one)


def _read(stated: Mapping[str, str]) -> tuple[dict[str, Polynomial], dict[str, str]]:
    """The parsed claims, and the reasons why others cannot be parsed. Rows may have been edited."""
    read, unreadable = {}, {}
    for name, text in stated.items():
        try:
            read[name] = parse(text)
        except UsageError as error:
            unreadable[name] = str(error)
    return read, unreadable


def _judge(quantity: str, lines: Sequence[CaseResult], claim: Polynomial, law: Law | None) -> Judgement:
    by_order = {"memory": judge_memory, "depth": judge_depth, "path": judge_path}
    if quantity not in by_order:
        return judge_work(lines, claim, law)
    return _without_mask(lines, by_order[quantity](lines, claim))


def _without_mask(lines: Sequence[CaseResult], one: Judgement) -> Judgement:
    """Turn a refutation under a mask into undetermined, because claims are of a pass without a mask."""
    if one.verdict == REFUTED and is_masked(lines[0]):
        return replace(one, verdict=UNDETERMINED, reason=f"claimed without a mask; under this one, {one.reason}")
    return one


_SETTING = tuple(field.name for field in fields(Setting))
COLUMNS = ("impl", "mode", "quantity", "claimed", "measured", "verdict", "reason", *_SETTING[1:])


def claims_table(found: Iterable[Verdict]) -> "pd.DataFrame":
    """Return the verdicts as a tidy DataFrame."""
    import pandas as pd

    return pd.DataFrame([{**vars(one), **asdict(one.setting)} for one in found], columns=list(COLUMNS))
