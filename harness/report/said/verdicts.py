"""The verdicts on the claims: their counts, and a sentence for each refuted claim."""

from collections.abc import Iterable, Sequence

from harness.findings.claimed import REFUTED
from harness.findings.verdicts import VERDICTS, Verdict
from harness.report.said.where import Where

QUANTITIES = {
    "work": "work, forward",
    "work_train": "work, training",
    "work_backward": "work, backward",
    "work_decode": "work, one token",
    "memory": "memory",
    "depth": "sequential operations",
    "path": "longest path",
    "time": "time",
}


def count(verdicts: Sequence[Verdict]) -> str:
    """`Of 30 claims 27 confirmed, 1 refuted, 2 undetermined.`"""
    numbers = [(sum(one.verdict == kind for one in verdicts), kind) for kind in VERDICTS]
    said = [f"{number} {kind}" for number, kind in numbers if number]
    return f"Of {len(verdicts)} claims {', '.join(said)}." if said else ""


def refuted(verdicts: Iterable[Verdict]) -> list[str]:
    """One sentence for each refuted claim, which names what distinguishes its setting from the others'."""
    among = list(verdicts)
    where = Where.among(one.setting for one in among).beside_mode()
    return [_refuted(one, where(one.setting)) for one in among if one.verdict == REFUTED]


def _refuted(one: Verdict, where: str) -> str:
    # The mode follows in brackets: `work, forward` would give it twice.
    quantity = name(one.quantity).partition(",")[0]
    of_what = f"{one.impl} ({', '.join(filter(None, (one.setting.mode, where)))})"
    return f"Refuted: {of_what} claims {quantity} of {one.claimed}, measured {one.measured}: {one.reason.rstrip('.')}."


def name(quantity: str) -> str:
    """The quantity in words; an unknown one by its own name."""
    return QUANTITIES.get(quantity, quantity)
