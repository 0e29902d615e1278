"""Create the directory of a run, recognise one, and link to the latest."""

import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.bounded_file import read_json
from harness.errors import UsageError
from harness.store.lock import NAME
from harness.whole_file import is_left_over, write_whole

CONFIG, MACHINE = "config.yaml", "machine.json"


def is_run(out: Path) -> bool:
    """Whether `out` is a run, finished or not."""
    return (out / "rows").is_dir() and (out / CONFIG).is_file()


def lacks_config(out: Path) -> bool:
    """Whether `out` holds rows but no configuration: a run whose `config.yaml` was lost."""
    try:
        return not (out / CONFIG).exists() and any((out / "rows").iterdir())
    except OSError:
        return False


def check_new(out: Path) -> None:
    """Raise UsageError unless a run can be created at `out`. Nothing is written."""
    try:
        _check_new(out)
    except OSError as error:
        raise UsageError(f"out={out}: {error.strerror}") from error


def _check_new(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise UsageError(f"out={out} is a file: name a directory")
    if is_run(out):
        raise UsageError(f"out={out} is a run: name a new directory")
    if out.is_dir() and not _is_half_made(out):
        raise UsageError(f"out={out} is not empty: name a new directory")
    nearest = next(parent for parent in (out, *out.absolute().parents) if parent.exists())
    if not nearest.is_dir():
        raise UsageError(f"out={out}: {nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK) or os.statvfs(nearest).f_flag & os.ST_RDONLY:
        raise UsageError(f"out={out}: {nearest} cannot be written to")


def _is_half_made(out: Path) -> bool:
    """Whether `out` is empty, or holds only files left by a `create` that was killed."""
    names = {path.name for path in out.iterdir()} - {NAME, "rows", MACHINE}
    left_over = all(any(is_left_over(name, of) for of in (MACHINE, CONFIG)) for name in names)
    return left_over and not any((out / "rows").glob("*"))


def create(out: Path, config_yaml: str, machine: Mapping[str, Any]) -> None:
    """Create the directory of a new run, with its configuration and machine. Raises UsageError on failure.

    The configuration makes the directory a run, so it is written last and atomically.
    """
    try:
        (out / "rows").mkdir(parents=True, exist_ok=True)
        write_whole(out / MACHINE, _text(machine))
        write_whole(out / CONFIG, config_yaml)
    except OSError as error:
        raise UsageError(f"out={out}: {error.strerror}") from error


def add_machine(run: Path, machine: Mapping[str, Any]) -> None:
    """Store the machine of another host in `machines/`, under the name of the host."""
    (run / "machines").mkdir(exist_ok=True)
    write_whole(run / "machines" / f"{machine['host']}.json", _text(machine))


def machines(run: Path) -> dict[str, dict[str, Any]]:
    """The machines that measured the run, by host name. Unreadable files are left out.

    They come from `machines/`, or from `machine.json` if `machines/` holds none.
    """
    paths = sorted((run / "machines").glob("*.json")) or [run / MACHINE]
    found = {}
    for path in paths:
        try:
            machine = read_json(path)
            found[str(machine["host"])] = machine
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a run with an unknown machine is still valid
    return found


def remembered(run: Path, name: str) -> dict[str, Any]:
    """The entry `name` of the run's `machine.json`; empty if the entry is missing or the file is unreadable."""
    try:
        found = read_json(run / MACHINE).get(name)
    except (OSError, ValueError, AttributeError):
        return {}  # a run with an unknown machine is still valid
    return found if isinstance(found, dict) else {}


def remember(run: Path, name: str, what: Mapping[str, Any]) -> None:
    """Set the entry `name` of the run's `machine.json`.

    Raises UsageError if the file cannot be read or written, and ValueError if it is not JSON.
    """
    try:
        machine = read_json(run / MACHINE)
        write_whole(run / MACHINE, _text({**machine, name: what}))
    except OSError as error:
        raise UsageError(f"out={run}: {error.strerror}") from error


def _text(machine: Mapping[str, Any]) -> str:
    return json.dumps(machine, indent=2, ensure_ascii=False) + "\n"


def set_aside(out: Path) -> Path:
    """Move the contents of the run, except its lock, to a new directory beside it. Return that directory."""
    number = next(number for number in itertools.count(1) if not _aside(out, number).exists())
    aside = _aside(out, number)
    aside.mkdir()
    for path in list(out.iterdir()):
        if path.name != NAME:
            path.rename(aside / path.name)
    return aside


def _aside(out: Path, number: int) -> Path:
    named = out if out.name else out.absolute()
    return named.with_name(f"{named.name}.before-{number}")


def link_latest(out: Path) -> None:
    """Point the link `latest`, beside the run, to the run. A regular file or directory of that name stays."""
    link = out.parent / "latest"
    if link.is_symlink() or not link.exists():
        fresh = link.with_name(f".latest-{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(out.name)
        fresh.replace(link)


def check_run(run: Path) -> None:
    """Raise UsageError unless `run` is the directory of a run."""
    if lacks_config(run):
        raise UsageError(
            f"{run} has rows/ and no {CONFIG}, which says what was asked for: put that back; "
            f"or `sweep out={run} --fresh` sets it aside and measures anew"
        )
    if not is_run(run):
        raise UsageError(f"{run} is not a run: it has no rows/ and config.yaml")
