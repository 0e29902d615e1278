"""What became of the claims, counted and in order."""

from collections.abc import Iterable, Sequence

from harness.findings.verdicts import VERDICTS, Verdict

QUANTITIES = {
    "work": "work, forward",
    "work_train": "work, training",
    "memory": "memory",
    "depth": "sequential operations",
    "path": "longest path",
    "time": "time",
}


def count(verdicts: Sequence[Verdict]) -> str:
    """`27 claims confirmed, 1 refuted, 2 undetermined`."""
    numbers = [(sum(one.verdict == kind for one in verdicts), kind) for kind in VERDICTS]
    said = [f"{number} {kind}" for number, kind in numbers if number]
    return f"Of {len(verdicts)} claims {', '.join(said)}." if said else ""


def refuted(verdicts: Iterable[Verdict]) -> list[str]:
    """One sentence for each claim that does not hold."""
    return [
        f"Refuted: {one.impl} ({one.setting.mode}) claims {name(one.quantity)} {one.claimed}, "
        f"measured {one.measured}: {one.reason}"
        for one in verdicts
        if one.verdict == "refuted"
    ]


def name(quantity: str) -> str:
    """The quantity in words; one that is new here, by its own name."""
    return QUANTITIES.get(quantity, quantity)
