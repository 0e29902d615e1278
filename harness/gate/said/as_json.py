"""A gate's outcomes as JSON, for other programs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from harness.gate.outcome import Outcome, exit_status, ordered

SCHEMA = 1


def as_json(
    title: str, outcomes: Sequence[Outcome], remarks: Sequence[str] = (), properties: Mapping[str, str] | None = None
) -> str:
    """The whole file: all outcomes, the worst first, and the exit status that follows from them."""
    found = {
        "schema": SCHEMA,
        "title": title,
        "exit_status": exit_status(outcomes),
        "properties": dict(properties or {}),
        "remarks": list(remarks),
        "outcomes": [asdict(outcome) for outcome in ordered(outcomes)],
    }
    # A lone surrogate, from a path that is not UTF-8, stays an escape sequence.
    return json.dumps(found, indent=1, ensure_ascii=True) + "\n"
