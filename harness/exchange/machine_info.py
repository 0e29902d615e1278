"""The machine, commit and time of a run in pytest-benchmark's form."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.summary.stored import Stored

_LONGEST_LINE = 16 * 2**20


def machine_info(machine: Mapping[str, Any]) -> dict[str, Any]:
    """`machine_info`, with empty texts for what the run does not record."""
    system, _, release = str(machine.get("kernel") or "").partition(" ")
    cpu, torch = _part(machine, "cpu"), _part(machine, "torch")
    model = str(cpu.get("model") or "")
    return {
        "node": str(machine.get("host") or ""),
        "processor": model,
        "machine": "",
        "python_compiler": "",
        "python_implementation": "CPython",
        "python_implementation_version": str(machine.get("python") or ""),
        "python_version": str(machine.get("python") or ""),
        "python_build": ["", ""],
        "release": release,
        "system": system,
        "cpu": {"brand_raw": model, "count": cpu.get("threads")},
        "torch": str(torch.get("version") or ""),
    }


def commit_info(machine: Mapping[str, Any]) -> dict[str, Any]:
    """`commit_info`: the commit of the directory the run was made in, else of this project's checkout."""
    described = str(machine.get("user_commit") or machine.get("project_commit") or "unversioned")
    return {
        "id": described.removesuffix("-dirty"),
        "time": None,
        "author_time": None,
        "dirty": described.endswith("-dirty"),
        "project": "attn-harness",
        "branch": "(unknown)",
    }


def taken_at(stored: Stored) -> str:
    """When the run began, in ISO format.

    The time is that of the first row. For a run without rows, it is the time its file was written.
    """
    path = stored.path
    for rows in filter(Path.is_file, sorted((path / "rows").glob("*.jsonl"))):
        with rows.open("rb") as file:
            began = _seconds(file.readline(_LONGEST_LINE))
        if began is not None:
            return began
    kept = path if path.is_file() else path / "summary.csv"
    return _iso(kept.stat().st_mtime if kept.is_file() else path.stat().st_mtime)


def _seconds(line: bytes) -> str | None:
    try:
        return _iso(float(json.loads(line)["at"]))
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        return None  # an incomplete row, a foreign one, or one from before rows had a time


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _part(machine: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = machine.get(name)
    return part if isinstance(part, Mapping) else {}
