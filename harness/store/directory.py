"""The directory that a run is: made once, told from others, linked to as the latest."""

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
    """Whether there is a run at `out`, finished or not."""
    return (out / "rows").is_dir() and (out / CONFIG).is_file()


def lacks_config(out: Path) -> bool:
    """Whether there are rows at `out` without a word of what was asked for: a run whose configuration has gone."""
    try:
        return not (out / CONFIG).exists() and any((out / "rows").iterdir())
    except OSError:
        return False


def check_new(out: Path) -> None:
    """Raise UsageError unless a run can be made at `out`; writes nothing."""
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
    """Whether nothing is there but what `create` leaves that was killed meanwhile, if anything."""
    names = {path.name for path in out.iterdir()} - {NAME, "rows", MACHINE}
    left_over = all(any(is_left_over(name, of) for of in (MACHINE, CONFIG)) for name in names)
    return left_over and not any((out / "rows").glob("*"))


def create(out: Path, config_yaml: str, machine: Mapping[str, Any]) -> None:
    """Make the directory of a new run, with how it was configured and where it ran. Raises UsageError if it cannot.

    It is a run once it has its configuration: that comes last, and whole.
    """
    try:
        (out / "rows").mkdir(parents=True, exist_ok=True)
        write_whole(out / MACHINE, _text(machine))
        write_whole(out / CONFIG, config_yaml)
    except OSError as error:
        raise UsageError(f"out={out}: {error.strerror}") from error


def add_machine(run: Path, machine: Mapping[str, Any]) -> None:
    """Say of one more host what it is, under its name: see `machines`."""
    (run / "machines").mkdir(exist_ok=True)
    write_whole(run / "machines" / f"{machine['host']}.json", _text(machine))


def machines(run: Path) -> dict[str, dict[str, Any]]:
    """What is known of the hosts that a run was measured on, by their names."""
    paths = sorted((run / "machines").glob("*.json")) or [run / MACHINE]
    found = {}
    for path in paths:
        try:
            machine = read_json(path)
            found[str(machine["host"])] = machine
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a run whose machine is not known is a run all the same
    return found


def remembered(run: Path, name: str) -> dict[str, Any]:
    """What the run's machine.json holds under the name; nothing where it has not, or cannot be read."""
    try:
        found = read_json(run / MACHINE).get(name)
    except (OSError, ValueError, AttributeError):
        return {}  # a run whose machine is not known is a run all the same
    return found if isinstance(found, dict) else {}


def remember(run: Path, name: str, what: Mapping[str, Any]) -> None:
    """Put it there, in the place of what was. Raises UsageError where that cannot be."""
    try:
        machine = read_json(run / MACHINE)
        write_whole(run / MACHINE, _text({**machine, name: what}))
    except OSError as error:
        raise UsageError(f"out={run}: {error.strerror}") from error


def _text(machine: Mapping[str, Any]) -> str:
    return json.dumps(machine, indent=2, ensure_ascii=False) + "\n"


def set_aside(out: Path) -> Path:
    """Move all that is in the run's directory, but for its lock, into one beside it; which one."""
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
    """Point `latest`, beside the run, to it; a file or directory of that name is somebody's own and stays."""
    link = out.parent / "latest"
    if link.is_symlink() or not link.exists():
        fresh = link.with_name(f".latest-{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(out.name)
        fresh.replace(link)


def check_run(run: Path) -> None:
    """Raise UsageError unless `run` is a run's directory."""
    if lacks_config(run):
        raise UsageError(
            f"{run} has rows/ and no {CONFIG}, which says what was asked for: put that back; "
            f"or `sweep out={run} --fresh` sets it aside and measures anew"
        )
    if not is_run(run):
        raise UsageError(f"{run} is not a run: it has no rows/ and config.yaml")
