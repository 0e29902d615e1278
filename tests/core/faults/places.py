"""Faults of a run's directory during a sweep: full, read-only, renamed or removed."""

import errno
import json
import shutil
from pathlib import Path

from core.faults.driver import Driver, becomes_true, remaining
from core.faults.place import Place

_MOST_LEFT = 2**18
_READ_ONLY, _WRITABLE = 0o555, 0o755


def fill_disk(place: Place, driver: Driver | None) -> bool:
    """Leave a random number of bytes on the file system, at most 256 KiB."""
    if not _come_to_it(place, driver) or not place.cwd.is_mount() or place.ballast.exists():
        return False
    place.undo.append(place.ballast.unlink)
    part = bytes(2**16)
    with place.ballast.open("wb", buffering=0) as file:
        try:
            while file.write(part) == len(part):
                pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        file.truncate(max(0, file.tell() - place.draw.randrange(_MOST_LEFT)))
    return True


def make_read_only(place: Place, driver: Driver | None) -> bool:
    if not _come_to_it(place, driver):
        return False
    directories = [path for path in (place.run / "rows", place.run) if path.is_dir()]

    def put_back() -> None:
        for path in directories:
            path.chmod(_WRITABLE)

    place.undo.append(put_back)
    for path in directories:
        path.chmod(_READ_ONLY)
    return bool(directories)


def rename(place: Place, driver: Driver | None) -> bool:
    """Rename the run's directory. Undoing it reports a new directory in the old place as a violation."""
    if not _come_to_it(place, driver) or place.moved:
        return False
    aside = place.moved = place.run.with_name(f"{place.run.name}.aside")
    place.run.rename(aside)

    def put_back() -> None:
        place.moved = None
        if place.run.exists():
            place.wrong.append("it made another directory in place of the renamed run")
            _remove(place.run)
        aside.rename(place.run)

    place.undo.append(put_back)
    return True


def remove(place: Place, driver: Driver | None) -> bool:
    """Remove the run's directory, and with it all rows."""
    if not _come_to_it(place, driver):
        return False
    place.removed = place.damaged = True
    _remove(place.run)
    return True


def _come_to_it(place: Place, driver: Driver | None) -> bool:
    """Whether the run exists. While a sweep runs, wait for a random moment at which it holds the run.

    Before that moment, the sweep has not seen the run, and may create one of that name.
    """
    if driver is not None:
        place.wait_for_a_moment(driver)
        becomes_true(lambda: not driver.runs() or _is_held(place))
        if not driver.runs():
            return False
    return place.run.is_dir()


def _is_held(place: Place) -> bool:
    """Whether a process of the present sweep holds the run. A sweep that was killed leaves its lock file behind."""
    try:
        holder = json.loads((place.run / "lock.json").read_text())["pid"]
    except (OSError, ValueError):
        return False
    return any(process.pid == holder for process in remaining(place.mark))


def _remove(directory: Path) -> None:
    """Remove the directory even if a process keeps writing to it."""
    while directory.exists():
        shutil.rmtree(directory, ignore_errors=True)
