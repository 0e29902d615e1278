"""What a gate found as JSON, for whoever wants to go on with it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from harness.gate.outcome import Outcome, exit_status, ordered

SCHEMA = 1


def as_json(
    title: str, outcomes: Sequence[Outcome], remarks: Sequence[str] = (), properties: Mapping[str, str] | None = None
) -> str:
    """The whole file: every outcome, the worst first, and the exit status that they amount to."""
    found = {
        "schema": SCHEMA,
        "title": title,
        "exit_status": exit_status(outcomes),
        "properties": dict(properties or {}),
        "remarks": list(remarks),
        "outcomes": [asdict(outcome) for outcome in ordered(outcomes)],
    }
    # Half a surrogate pair, of a path that is no UTF-8, stays an escape.
    return json.dumps(found, indent=1, ensure_ascii=True) + "\n"
