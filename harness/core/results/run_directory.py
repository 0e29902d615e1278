"""The directory of a run: create it, recognise it, allow one writer at a time, and link to the latest."""

import errno
import itertools
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path
from typing import Any

from harness.core.config.machine import Machine, gpu_states, with_gpus
from harness.core.model import file_io
from harness.core.model.errors import UsageError, usage_error_about

LOCK = "lock.json"
# The process that writes into a run, as the lock file describes it.
_Holder = dict[str, Any]
_BOOT = Path("/proc/sys/kernel/random/boot_id")
# Errors of file systems without locks. The content of the file is then the only evidence.
_NO_LOCKS = (errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK)


@contextmanager
def locked(out: Path, make: bool = True) -> Iterator[str | None]:
    """Hold the run at `out` for one writer. With `make`, create the directory if necessary.

    A file in the directory names the holder, and the kernel holds the lock. The kernel releases a lock when its process
    ends, for whatever reason. A file without a lock is therefore stale, unless another machine wrote it: the kernel of
    this machine does not see the locks of others.

    Yield the name of a holder that ended without releasing the run, or None. Raises UsageError if another process holds
    the run, or if the directory is not writable.
    """
    path = out / LOCK
    try:
        if make:
            out.mkdir(parents=True, exist_ok=True)
        while (file := _open_locked(out)) is None:
            pass
    except OSError as error:
        raise UsageError(
            f"out={out} cannot be written to ({error.strerror}): nothing was measured; "
            "name another directory, or make this one writable"
        ) from error
    try:
        left_by = _take_over(out, file)
    except BaseException:
        os.close(file)
        raise
    try:
        yield left_by
    finally:
        # Remove the file, then release the lock. A process that opened the old file then sees that the file is
        # gone, and creates a new one.
        try:
            if os.path.samestat(path.stat(), os.fstat(file)):  # another directory may have this name by now
                path.unlink()
        except OSError:  # the directory became read-only, or was removed
            with suppress(OSError):
                os.ftruncate(file, 0)  # an empty file names no holder, so none will be reported
        os.close(file)


def _open_locked(out: Path) -> int | None:
    """Open the file and lock it. Return None if the file was removed or replaced meanwhile: try again."""
    file = os.open(out / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    with ExitStack() as unless_mine:
        unless_mine.callback(os.close, file)
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError as error:
            who = _holder_text(_read(file))
            raise UsageError(f"out={out}: {who} is measuring there: wait for it, or end it") from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        with suppress(FileNotFoundError):  # the previous holder has just removed the file
            if os.stat(out / LOCK).st_ino == os.fstat(file).st_ino:
                unless_mine.pop_all()
                return file
    return None


def _take_over(out: Path, file: int) -> str | None:
    """Write this process into the file. Return the holder that the file named."""
    holder = _read(file)
    if holder and not _of_this_machine(holder):
        raise UsageError(
            f"out={out}: {_holder_text(holder)} is measuring there, or has ended without a word; "
            f"if it has, remove {out / LOCK}"
        )
    me = {"host": platform.node(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    me["boot"] = file_io.read_setting(_BOOT)
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(me).encode() + b"\n", 0)
    return _holder_text(holder) if holder else None


def holder(out: Path) -> tuple[str | None, bool | None]:
    """The process named in the lock file, and whether it still holds the run.

    The process is None without a lock file. The second value is None if only another machine could tell.
    """
    try:
        file = os.open(out / LOCK, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe of that name would block
    except FileNotFoundError:
        return None, False
    try:
        process = _read(file)
        try:
            flock(file, LOCK_SH | LOCK_NB)
        except BlockingIOError:
            return _holder_text(process), True
        return _holder_text(process), False if not process or _of_this_machine(process) else None
    finally:
        os.close(file)


def _read(file: int) -> _Holder:
    """The description that the holder wrote of itself; empty if the file holds none."""
    try:
        description = json.loads(os.pread(file, 4096, 0))
    except (ValueError, RecursionError, OSError):  # OSError: a pipe cannot be read at an offset
        return {}
    return description if isinstance(description, dict) else {}


def _holder_text(holder: _Holder) -> str:
    if not holder:
        return "another process"
    return f"process {holder.get('pid')} on {holder.get('host')}, since {holder.get('since')},"


def _of_this_machine(holder: _Holder) -> bool:
    """Whether the holder ran on this machine: the same boot id, or, after a reboot, the same host name."""
    return holder.get("boot") == file_io.read_setting(_BOOT) or holder.get("host") == platform.node()


# Runs without `out=` are directories of this one.
RESULTS = Path("results")
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
    with usage_error_about(f"out={out}"):
        if out.exists() and not out.is_dir():
            raise UsageError(f"out={out} is a file: name a directory")
        if is_run(out):
            raise UsageError(f"out={out} is a run: name a new directory")
        if out.is_dir() and not _is_half_made(out):
            raise UsageError(f"out={out} is not empty: name a new directory")
    check_writable(out, f"out={out}")


def check_writable(directory: Path, name: str) -> None:
    """Raise UsageError, beginning with `name`, unless `directory` is writable or can be created."""
    with usage_error_about(name):
        nearest = next(parent for parent in (directory, *directory.absolute().parents) if parent.exists())
        if not nearest.is_dir():
            raise UsageError(f"{name}: {nearest} is a file")
        try:  # as root, only an attempt tells: /proc, for one, takes no directory
            os.rmdir(tempfile.mkdtemp(dir=nearest))
        except OSError as error:
            raise UsageError(f"{name}: {nearest} cannot be written to") from error


def _is_half_made(out: Path) -> bool:
    """Whether `out` is empty, or holds only files left by a `create` that was killed."""
    names = {path.name for path in out.iterdir()} - {LOCK, "rows", MACHINE}
    left_over = all(any(file_io.is_leftover(name, of) for of in (MACHINE, CONFIG)) for name in names)
    return left_over and not any((out / "rows").glob("*"))


def create(out: Path, config_yaml: str, machine: Machine) -> None:
    """Create the directory of a new run, with its configuration and machine. Raises UsageError on failure.

    The configuration makes the directory a run, so it is written last and atomically.
    """
    with usage_error_about(f"out={out}"):
        (out / "rows").mkdir(parents=True, exist_ok=True)
        file_io.write_json(out / MACHINE, machine)
        file_io.write_atomically(out / CONFIG, config_yaml)


def read_config(run: Path) -> dict[str, Any] | None:
    """The configuration of the run; None if `config.yaml` is missing or holds none. Raises OSError if unreadable."""
    import yaml  # here: a lock and the machine of a run need no parser

    try:
        config = yaml.safe_load(file_io.read_text(run / CONFIG, file_io.MOST_YAML_BYTES))
    except (yaml.YAMLError, UnicodeDecodeError, FileNotFoundError, RecursionError):
        return None
    return config if isinstance(config, dict) else None


def read_machine(path: Path) -> tuple[Machine, list[str]]:
    """The description of a machine, and a notice for each part that does not fit. Without any, it is empty."""
    from harness.core.model.file_validation import known_machine  # imports pydantic

    try:
        content = file_io.read_json(path)
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        return {}, [f"{path}: cannot be read, the machine is not known"]
    machine, damages = known_machine(content)
    return machine, [f"{path}: {damage}" for damage in damages]


def machines(run: Path) -> tuple[dict[str, Machine], list[str]]:
    """The machines that measured the run, by host name, and the notices of their files.

    They come from `machines/`, or from `machine.json` if `machines/` holds none. A host has all GPUs of its files.
    """
    hosts = dict[str, Machine]()
    notices = []
    for path in sorted((run / "machines").glob("*.json")) or [run / MACHINE]:
        machine, damages = read_machine(path)
        notices += damages
        if host := machine.get("host"):
            states = {**gpu_states(hosts.get(host, {})), **gpu_states(machine)}
            hosts[host] = with_gpus(machine, states) if states else machine
    return hosts, notices


def set_aside(out: Path) -> Path:
    """Move the contents of the run, except its lock, to a new directory beside it. Return that directory."""
    named = out if out.name else out.absolute()
    aside = _unused(named.with_name(f"{named.name}.before-{number}") for number in itertools.count(1))
    aside.mkdir()
    for path in list(out.iterdir()):
        if path.name != LOCK:
            path.rename(aside / path.name)
    return aside


def unused_path(prefix: str = "") -> Path:
    """A new directory in `results/`, named after the current time. Creates nothing."""
    name = f"{prefix}{time.strftime('%Y-%m-%d_%H-%M-%S')}"
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return _unused(map(RESULTS.joinpath, itertools.chain([name], numbered)))


def make_unused(path: Path) -> Path:
    """Create `path`, or another new one if a command of the same second has just created it. Return which."""
    while True:
        try:
            with suppress(PermissionError):  # the lock of the run says why
                path.mkdir(parents=True)
            return path
        except FileExistsError:
            path = unused_path()


def _unused(paths: Iterable[Path]) -> Path:
    """The first path that does not exist. One of the current time may exist: two commands began in the same second."""
    return next(path for path in paths if not path.exists())


def link_latest(out: Path) -> None:
    """Point the link `latest`, beside the run, to the run. A regular file or directory of that name stays.

    Raises OSError if the link may not be replaced, as another user's in a directory of all.
    """
    link = out.parent / "latest"
    if link.is_symlink() or not link.exists():
        fresh = link.with_name(f".latest-{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(out.name)
        try:
            fresh.replace(link)
        finally:
            fresh.unlink(missing_ok=True)


def check_run(run: Path) -> None:
    """Raise UsageError unless `run` is the directory of a run."""
    if lacks_config(run):
        raise UsageError(
            f"{run} has rows/ and no {CONFIG}, which says what was asked for: put that back; "
            f"or `sweep out={run} --fresh` sets it aside and measures anew"
        )
    if not is_run(run):
        raise UsageError(f"{run} is not a run: it has no rows/ and config.yaml")
