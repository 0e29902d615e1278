"""A calibration on disk, and attached to later runs.

`calibration.json` is for people and for later commands. Names contain units. The fields that commands read are at the
top: `noise_floor` (a share), `clock_s`, `peak_flops_per_s` (by dtype) and `bandwidth_bytes_per_s`.
"""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from harness.bounded_file import read_text
from harness.calibration.advice import advise, verdict
from harness.calibration.load import Busy, Load
from harness.calibration.measured import Calibration
from harness.calibration.noise import Floor
from harness.calibration.state import State
from harness.errors import UsageError
from harness.whole_file import write_whole

SCHEMA = 1
PATH = Path("results") / "calibration.json"


def as_dict(calibration: Calibration) -> dict[str, Any]:
    """The content of the file."""
    advice = advise(calibration)
    return {
        "schema": SCHEMA,
        "kind": "calibration",
        "verdict": verdict(advice),
        "advice": [asdict(one) for one in advice],
        "noise_floor": calibration.noise_floor,
        "bandwidth_bytes_per_s": calibration.bandwidth_bytes_per_s,
        **asdict(calibration),
    }


def from_dict(data: Mapping[str, Any]) -> Calibration:
    """The calibration that `as_dict` wrote. Raises KeyError or TypeError for other content."""
    plain = {field.name: data[field.name] for field in fields(Calibration)}
    load, state = dict(plain["load"]), dict(plain["state"])
    load["busiest"] = tuple(Busy(**busy) for busy in load["busiest"])
    state["unreadable"] = tuple(state["unreadable"])
    state["governors"] = tuple(state["governors"]) if state["governors"] is not None else None
    plain |= {"noise": Floor(**plain["noise"]), "load": Load(**load), "state": State(**state)}
    return Calibration(**{**plain, "failures": tuple(plain["failures"])})


def check_out(path: Path) -> None:
    """Raise UsageError unless a calibration can be saved at `path`. Nothing is written.

    An existing file is replaced only if it is a calibration.
    """
    if path.is_dir():
        raise UsageError(f"--out {path} is a directory: name a file, such as {path / 'calibration.json'}")
    try:
        if path.exists() and _problem(path) is not None:
            raise UsageError(f"--out {path}: there is another file of that name; name a new one")
        nearest = next(parent for parent in path.absolute().parents if parent.exists())
    except OSError as error:
        raise UsageError(f"--out {path}: {error.strerror}") from error
    if not nearest.is_dir():
        raise UsageError(f"--out {path}: {nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"--out {path}: {nearest} cannot be written to")


def save(calibration: Calibration, path: Path) -> None:
    """Write the file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(as_dict(calibration), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def load_calibration(path: Path) -> Calibration:
    """Read the file. Raises UsageError if it is absent or not a calibration."""
    data, problem = _read(path)
    if problem is not None:
        raise UsageError(f"{path}: {problem}")
    return from_dict(data)


def attachment(
    path: Path, machine: Mapping[str, Any], threads: Collection[int], devices: Collection[str]
) -> dict[str, Any]:
    """The entries of a run's `machine.json`: `calibration`, or the reason why it is missing in `calibration_note`.

    A calibration counts only if it was made on this host, processor, GPU and torch. Its device and its number of
    threads must also occur in the run. `machine` is what `describe_machine` returns.
    """
    if not path.exists():
        return _none("there is none: python -m harness calibrate makes one")
    data, problem = _read(path)
    if problem is not None:
        return _none(f"{path}: {problem}")
    made = from_dict(data)
    here: dict[str, tuple[str | None, str | None]] = {
        "host": (made.host, machine["host"]),
        "processor": (made.cpu_model, machine["cpu"]["model"]),
        "torch": (made.torch_version, machine["torch"]["version"]),
    }
    if made.device == "cuda":
        here["GPU"] = (made.gpu, machine["torch"]["gpu"])
    for what, (then, now) in here.items():
        if then != now:
            return _none(f"{path} is of another {what}: {then}, here {now}")
    if made.device not in devices:
        return _none(f"{path} is for device={made.device}")
    if made.threads not in threads:
        return _none(f"{path} is for threads={made.threads}")
    return {"calibration": data, "calibration_note": None}


def _none(why: str) -> dict[str, Any]:
    return {"calibration": None, "calibration_note": why}


def _problem(path: Path) -> str | None:
    return _read(path)[1]


def _read(path: Path) -> tuple[dict[str, Any], str | None]:
    """`(the file's content, None)`, or `({}, the problem)`."""
    try:
        data = json.loads(read_text(path))
    except OSError as error:
        return {}, error.strerror or "cannot be read"
    except (ValueError, RecursionError):
        return {}, "not a calibration: it is not JSON"
    if not isinstance(data, dict) or data.get("kind") != "calibration":
        return {}, "not a calibration"
    if data.get("schema") != SCHEMA:
        return {}, f"a calibration of schema {data.get('schema')}, not {SCHEMA}: make it anew"
    try:
        from_dict(data)
    except (KeyError, TypeError, ValueError) as error:
        return {}, f"a calibration that lacks something ({error}): make it anew"
    return data, None
