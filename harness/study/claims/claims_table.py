"""`claims.csv`: what theory claims of each layer, compared with the measurements."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from harness.core.layers.layer_lookup import BY_ORDER, claims_of_impl, work_of
from harness.core.model import own_axes
from harness.core.model.errors import UsageError
from harness.core.model.polynomial import Polynomial, own_letter, parse
from harness.core.model.sweep_axes import SETTINGS, Setting
from harness.core.results.columns import CaseResult
from harness.study.laws.fitted_laws import FittedLaw, laws_by_series
from harness.study.laws.laws import WIDEST, Range, exponent_of, exponent_text
from harness.study.laws.series import series_groups
from impls.registry import IMPLS

from . import claim_rules
from .claim_rules import UNDETERMINED, Judgement

if TYPE_CHECKING:
    import pandas as pd

VERDICTS = (claim_rules.CONFIRMED, claim_rules.REFUTED, UNDETERMINED)
# The claims that are judged in each mode. Depth, path and memory are claimed of a forward pass.
_BY_MODE = {
    "forward": ("work", "memory", "depth", "path"),
    "train": ("work_train",),
    "backward": ("work_backward",),
    "decode": ("work_decode",),
}
# Stands for a claim of FLOPs that is made case by case and not as one polynomial.
OWN_FORMULA = "its own formula"
# Stands for a claim that nobody made, in a row that says which one could be judged. It does not count as a claim.
NOT_CLAIMED = "not claimed"
_OF_ONE_LENGTH = "claimed of a layer that attends to its own n tokens: a claim in m covers a source of m tokens"
_OF_A_PASS = "`work` is claimed of a whole pass: claim `work_decode` of one token"


@dataclass(frozen=True)
class ClaimVerdict:
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


def verdicts(lines: Iterable[CaseResult], laws: Iterable[FittedLaw]) -> list[ClaimVerdict]:
    """Judge every claim of every layer, in each setting whose mode the claim covers.

    Time is judged in every mode that has a claim of work. A mask refutes nothing: claims are of a pass without one, and
    some layers compute a masked pass in another way, as parallel linear attention does.
    """
    fitted = laws_by_series(laws)
    found = []
    for (impl, setting), members in series_groups(lines).items():
        of_time, of_work = (fitted.get((impl, setting, metric)) for metric in ("time", "flops"))
        for quantity, claimed, judgement in _judge_layer(members, setting.mode, of_time, of_work):
            if judgement.verdict == claim_rules.REFUTED and claim_rules.is_masked(members[0]):
                reason = f"claimed without a mask (measure mask=none); under this one, {judgement.reason}"
                judgement = replace(judgement, verdict=UNDETERMINED, reason=reason)
            found.append(ClaimVerdict(impl, setting, quantity, claimed, **vars(judgement)))
    return found


def claims_of(lines: Iterable[CaseResult]) -> dict[str, str]:
    """Return the claims of these lines' layer, as text by name.

    The claims of a built-in layer come from the registry, those of other layers from their rows.
    """
    for line in lines:
        if line.impl in IMPLS:
            return {name: str(claim) for name, claim in claims_of_impl(line.impl, line).items()}
        if line.claims:
            return json.loads(line.claims)
    return {}


def _judge_layer(
    lines: Sequence[CaseResult], mode: str, of_time: FittedLaw | None, of_work: FittedLaw | None
) -> Iterator[tuple[str, str, Judgement]]:
    """Yield (quantity, claim as text, judgement) for each claim of one layer in one setting."""
    stated = claims_of(lines)
    letters = own_axes.letters_of_texts(line.own_axes for line in lines)
    if lines[0].kv_len:
        letters["m"] = own_letter("m")
    read, unreadable = _read(stated, letters)
    if others := own_axes.unclaimed_options(lines[0].impl, lines[0].own_axes, lines[0].options):
        read, unreadable = {}, dict.fromkeys(stated, f"claimed at the layer's default, not at {others}")
    if len(unlike := {line.claims for line in lines if line.claims}) > 1:
        stated = {name: text for claims in sorted(unlike) for name, text in json.loads(claims).items()}
        read, unreadable = {}, dict.fromkeys(stated, "its rows state different claims")
    judges = {"memory": claim_rules.judge_memory, "depth": claim_rules.judge_depth, "path": claim_rules.judge_path}
    judge_work = partial(claim_rules.judge_work, law=of_work.law if of_work else None)
    if lines[0].kv_len:
        unreadable |= {name: _OF_ONE_LENGTH for name, claim in read.items() if not claim.growth("m")[0]}
        read = {name: claim for name, claim in read.items() if name not in unreadable}
    if mode == "backward" and (difference := work_of(read, mode)):
        read["work_backward"] = difference
        stated = {**stated, "work_backward": str(difference)}
    for quantity in _BY_MODE.get(mode, ()):
        text = f"O({stated.get(quantity)})" if quantity in BY_ORDER else stated.get(quantity, OWN_FORMULA)
        if quantity in unreadable:
            yield quantity, text, Judgement("", UNDETERMINED, unreadable[quantity])
        elif quantity in read:
            yield quantity, text, judges.get(quantity, judge_work)(lines, read[quantity])
        elif quantity not in BY_ORDER and any(line.flops_claimed is not None for line in lines):
            yield quantity, text, judge_work(lines, None)
        elif quantity == "work_decode" and "work" in stated and lines[0].impl not in IMPLS:
            yield quantity, NOT_CLAIMED, Judgement("", UNDETERMINED, _OF_A_PASS)
    work = work_of(read, mode)
    if work is not None and mode in _BY_MODE:
        # Decoding one token is one step, however many tokens came before.
        yield "time", *judge_time(lines, of_time, work, read.get("depth") if mode != "decode" else None)


def _read(stated: Mapping[str, str], letters: Mapping[str, Polynomial]) -> tuple[dict[str, Polynomial], dict[str, str]]:
    """The parsed claims, in further letters too, and why others cannot be parsed. Rows may have been edited."""
    read, unreadable = {}, {}
    for name, text in stated.items():
        try:
            read[name] = parse(text, letters)
        except UsageError as error:
            unreadable[name] = str(error)
    return read, unreadable


def judge_time(
    lines: Sequence[CaseResult], fitted: FittedLaw | None, work: Polynomial, depth: Polynomial | None
) -> tuple[str, Judgement]:
    """Return the exponent claimed of time, as text, and the judgement on it.

    At the largest size, time must grow with n as the claimed work does, or as the claimed depth if that grows faster.
    The cost of a multiply-add is free and may differ from term to term.
    """
    timed = [line for line in lines if line.time_s is not None]
    at = max(timed or lines, key=lambda line: (line.batch_size * work.value(*line.sequence_size), line.sequence_size))
    # A layer that does n steps one after another needs time for each of them, however little work they are.
    of_work, steps = claim_rules.exponent_at(work, "n", at.sequence_size), float(depth.growth("n")[0]) if depth else 0.0
    expected = Range(max(of_work.value, steps), max(of_work.lo, steps), max(of_work.hi, steps))
    where = f"at n = {at.seq_len}, d = {at.d_model}"
    claimed = f"n^{expected.value:.2f} {where}"
    if fitted is None or not timed:
        return claimed, Judgement("", UNDETERMINED, "it has no law of time" if timed else "it was not timed")
    found = exponent_of(fitted.law, "n", *at.size)
    if found is None:
        return claimed, Judgement("", UNDETERMINED, "n was not varied")
    measured = f"n^{exponent_text(found, fitted.law.determined)}"
    if not fitted.law.determined:
        return claimed, Judgement(measured, UNDETERMINED, f"its cost model is undetermined: {fitted.law.reason}")
    free = f" ({expected.lo:.2f} to {expected.hi:.2f} as constants are)" if expected.hi - expected.lo > 0.01 else ""
    allowed = f"{expected.value:.2f}{free}, {claim_rules.RESOLUTION:g} either way"
    text = f"measured exponent {exponent_text(found)} where the claim has {allowed}, {where}"
    verdict, doubt = _compare_time(found, expected)
    return claimed, Judgement(measured, verdict, f"{text}: {doubt}" if doubt else text)


def _compare_time(found: Range, expected: Range) -> tuple[str, str]:
    """The verdict on a measured exponent, and the reason for any doubt."""
    if not found.hi - found.lo <= WIDEST:
        return UNDETERMINED, "the interval is too wide to tell"
    if found.lo <= expected.hi + claim_rules.RESOLUTION and found.hi >= expected.lo - claim_rules.RESOLUTION:
        anything = f"anything from {expected.lo:.2f} to {expected.hi:.2f} would agree, larger n would tell"
        is_open = expected.hi - expected.lo > WIDEST
        return (UNDETERMINED, anything) if is_open else (claim_rules.CONFIRMED, "")
    if found.hi < expected.lo:
        # Time cannot keep growing more slowly than the work. Other costs still dominate at these sizes.
        return UNDETERMINED, "the fixed costs of calls and launches still dominate: measure larger n"
    return claim_rules.REFUTED, ""


COLUMNS = ("impl", "mode", "quantity", "claimed", "measured", "verdict", "reason", *SETTINGS[1:])


def claims_table(found: Iterable[ClaimVerdict]) -> "pd.DataFrame":
    """Return the verdicts as a tidy DataFrame."""
    import pandas as pd

    return pd.DataFrame([{**vars(one), **one.setting.as_dict()} for one in found], columns=list(COLUMNS))
