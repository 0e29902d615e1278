"""Invariants that hold after every sweep, however it was disturbed. Each function returns the violations."""

import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pandas as pd
from core.faults.driver import becomes_true, remaining
from core.faults.place import GOOD, ROUNDS, Place
from core.faults.table import LAYERS

_DONE, _REFUSED, _CASES_FAILED, _INTERRUPTED = 0, 2, 3, 130
# A sweep with a case of these statuses is not done: see the exit statuses in `harness.cli`.
_BAD = ("incorrect", "error", "killed")
_FINAL = ("ok", "oom")
# Parts of notices on stderr about data that the sweep continues without. These are not errors.
_NOTICES = ("left out", "counts once", "cannot be read", "holds no machine")
# A killed process takes a moment to go, and its memory with it.
_SOON_S = 10.0


def wrong_with(place: Place, status: int, said: str, ends: Collection[int]) -> list[str]:
    """The violations after a sweep that ended with this exit status and wrote `said` to stderr."""
    wrong = [] if status in ends else [f"it ended with {status} and not with {', '.join(map(str, sorted(ends)))}"]
    wrong += _wrong_with_what_it_said(status, said)
    if not becomes_true(lambda: not remaining(place.mark), _SOON_S):
        wrong.append("a process remains: " + ", ".join(sorted(one.status() for one in remaining(place.mark))))
    if not becomes_true(lambda: not place.left_behind(), _SOON_S / 5):
        wrong.append(f"files outside of out: {', '.join(place.left_behind())}")
    wrong += _wrong_with_rows(place)
    if status in (_DONE, _CASES_FAILED, _INTERRUPTED) and (place.run / "summary.csv").is_file():
        wrong += _wrong_with_summary(place, status)
    return wrong


def _wrong_with_what_it_said(status: int, said: str) -> list[str]:
    wrong = []
    lines = [line for line in said.splitlines() if not any(notice in line for notice in _NOTICES)]
    if "Traceback" in said or "Exception" in said:
        wrong.append(f"a traceback: {lines[-1:]}")
    elif any(not line.startswith("harness: ") for line in lines):
        wrong.append(f"a line on stderr is not the harness's: {lines}")
    if status == _REFUSED and len(lines) != 1:
        wrong.append(f"it refused in {len(lines)} lines: {lines}")
    return wrong


def _wrong_with_rows(place: Place) -> list[str]:
    """Files of earlier sweeps that have changed. They must stay the same, to the byte."""
    if place.removed or place.moved:
        return []
    now = place.rows() if (place.run / "rows").is_dir() else place.before
    return [f"{path.name} is not what it was" for path, rows in place.before.items() if now.get(path) != rows]


def _wrong_with_summary(place: Place, status: int) -> list[str]:
    """Cases without a result or a reason in the summary, and contradictions to the exit status."""
    rows = _summary(place)
    times = Counter(rows.impl)
    wrong = [f"{impl} is there {number} times" for impl, number in times.items() if number > 1]
    wrong += [
        f"{row.impl} is {row.status} without a reason"
        for row in rows.itertuples()
        if row.status != "ok" and not isinstance(row.reason, str)
    ]
    unfinished = [row.impl for row in rows.itertuples() if row.status == "ok" and row.stop_reason == "interrupted"]
    bad = [row.impl for row in rows.itertuples() if row.status in _BAD]
    missing = sorted(set(place.impls) - set(times))
    if status != _INTERRUPTED:
        wrong += [f"{impl} has no row in summary.csv" for impl in missing]
    if status == _DONE:
        wrong += [f"it ended with 0, and {impl} is not finished" for impl in unfinished + bad]
    if status == _CASES_FAILED and not unfinished + bad + missing:
        wrong.append("it ended with 3, and every case is finished")
    return wrong


def _summary(place: Place) -> pd.DataFrame:
    """The lines of the sweep's cases. A fault may have added rows of other cases to the run."""
    rows = pd.read_csv(place.run / "summary.csv")
    return rows[rows.impl.isin(place.impls) & (rows.seq_len == 8)]


def not_yet_done(place: Place) -> list[str]:
    """The cases that do not have their final result yet. The list of a finished run is empty."""
    if not (place.run / "summary.csv").is_file():
        return ["there is no summary.csv"]
    rows = {row.impl: row for row in _summary(place).itertuples()}
    wanted = dict.fromkeys(GOOD, _FINAL if place.memory_limited else ("ok",))
    wanted |= {f"core.faults.layers:{name}": LAYERS[name][:1] for name in place.layers}
    wrong = []
    for impl, statuses in wanted.items():
        row = rows.get(impl)
        if row is None:
            wrong.append(f"{impl} has no row in summary.csv")
        elif row.status not in statuses:
            wrong.append(f"{impl} is {row.status} and not {' or '.join(statuses)}: {row.reason}")
        elif row.status == "ok" and (row.stop_reason == "interrupted" or row.trials < ROUNDS):
            wrong.append(f"{impl} has {row.trials} of {ROUNDS} rounds")
        elif place.memory_limited and row.status == "oom" and "16 MiB" not in row.reason:
            wrong.append(f"{impl} is oom, and its reason does not name the limit: {row.reason}")
        elif LAYERS.get(impl.rpartition(":")[2], ("", ""))[1] not in str(row.reason):
            wrong.append(f"{impl} is {row.status} for another reason: {row.reason}")
    return wrong


def measured_twice(run: Path) -> list[str]:
    """Rounds and facts with several rows. Only valid for a run that no fault has damaged."""
    rows = [json.loads(line) for path in (run / "rows").glob("*.jsonl") for line in path.read_text().splitlines()]
    done = Counter((row["purpose"], row["key"], row["round"]) for row in rows if row["status"] == "ok")
    wrong = []
    for (purpose, key, number), times in done.items():
        if times > 1 and purpose in ("time", "facts"):
            wrong.append(f"{purpose} {number} of {key} was measured {times} times")
    return wrong
