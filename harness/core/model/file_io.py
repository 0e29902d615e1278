"""Read and write files safely: bounded reads, atomic writes, temporary directories, and CSV that runs no formulas."""

import errno
import io
import json
import os
import platform
import re
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


MOST_BYTES = 64 * 2**20
# Parsing YAML takes about a hundred times the file's size in memory.
MOST_YAML_BYTES = 8 * 2**20


def read_setting(path: str | Path) -> str | None:
    """The text of a file of the kernel; None if it is absent or may not be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _control_groups(controller: str, root: Path) -> Iterator[Path]:
    """The directories of this process's control group and of all groups above, of versions 2 and 1."""
    for line in (read_setting(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / (controller if controllers else "")
        group = mount / path.strip("/")
        yield from (place for place in (group, *group.parents) if place.is_relative_to(mount))


def cpu_quota(root: Path = Path("/")) -> tuple[float | None, bool]:
    """`(CPUs' worth of time granted by the control groups, whether this is known)`; None without a limit.

    The smallest quota of this process's group and all groups above counts. Version 2 (`cpu.max`) and version 1
    (`cpu.cfs_quota_us`) are read.
    """
    quotas = []
    is_known = False
    for group in _control_groups("cpu", root):
        of_version_1 = (read_setting(group / f"cpu.cfs_{name}_us") or "" for name in ("quota", "period"))
        quota, _, period = (read_setting(group / "cpu.max") or " ".join(of_version_1)).partition(" ")
        # The root group of version 2 has no cpu.max, because it cannot be limited.
        is_known = is_known or bool(quota) or (group / "cgroup.controllers").exists()
        if quota.isdecimal() and period.isdecimal():
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None), is_known


def memory_left(root: Path = Path("/")) -> int:
    """The bytes that the limits of this process's control groups leave, and more than any machine has without one.

    Cached files, which the kernel can drop, count as free.
    """
    left = [2**63]
    for group in _control_groups("memory", root):
        cached = re.findall(r"^inactive_file (\d+)$", read_setting(group / "memory.stat") or "", re.MULTILINE)
        for pair in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            limit, used = (read_setting(group / name) or "" for name in pair)
            if limit.isdecimal() and used.isdecimal():
                left.append(int(limit) - int(used) + sum(map(int, cached)))
    return max(0, min(left))


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """Content of a regular file of at most `most` bytes. Raises OSError for anything else.

    A device, a pipe or a file of many gigabytes could block the process or fill its memory.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    # Without O_NONBLOCK, opening a pipe without a writer would block here.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        content = file.read(most + 1)
    if content is None:  # nothing to read yet: a stream that the kernel presents as a file
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if len(content) > most:
        raise OSError(errno.EFBIG, f"the file is larger than {most // 2**20} MiB", str(path))
    return content


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Text of a UTF-8 file without its byte-order mark, with the limits of `read_bytes`.

    Raises UnicodeDecodeError (a ValueError) if the content is not UTF-8, and OSError like `read_bytes`.
    """
    return read_bytes(path, most).decode("utf-8-sig")


def read_json(path: Path) -> Any:
    """Parsed content of a JSON file. Raises OSError like `read_bytes`, and ValueError if the content is not JSON."""
    try:
        return json.loads(read_text(path))
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error


_END = ".part"


def write_atomically(path: Path, text: str) -> None:
    """Write `text` so that a reader of `path` finds either the old content or the complete new one.

    The text goes to a temporary file in the same directory, which is then renamed to `path`. Raises OSError with the
    file name of `path`. A killed writer leaves a temporary file whose name begins with `.` and the name of `path`.
    """
    # With the process id in its name, several processes can write the same file.
    part = path.with_name(f".{path.name[:200]}.{os.getpid()}{_END}")
    try:
        # A text may quote a path with bytes that are not UTF-8. Each of them becomes a question mark.
        part.write_text(text, encoding="utf-8", errors="replace")
        part.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):  # a directory that forbids writing also forbids removing
            part.unlink(missing_ok=True)


def write_json(path: Path, content: object) -> None:
    """Write the content as indented JSON, as `write_atomically` does. Raises ValueError for an infinity or NaN."""
    write_atomically(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def is_leftover(name: str, of: str) -> bool:
    """Whether `name` is a temporary file left by a killed writer of the file `of`."""
    return name.startswith(f".{of}.") and name.endswith(_END)


# Short, because a layer may create sockets in the directory: their path has at most 107 characters.
_PREFIX = "attn-"


def make_scratch() -> Path:
    """Make a new directory for trials, named after this process, in the system's directory for temporary files.

    Remove those left by processes that have ended. The name also identifies the host and the PID namespace. Several
    hosts or namespaces may share the parent directory, and each numbers its processes independently.
    """
    import psutil  # which reading a file does not need

    ours = f"{_PREFIX}{zlib.crc32(f'{platform.node()} {_pid_namespace()}'.encode()) & 0xFFFFF:x}-"
    for left in Path(tempfile.gettempdir()).glob(f"{ours}*-*"):
        number = left.name.removeprefix(ours).partition("-")[0]
        if number.isdigit() and not psutil.pid_exists(int(number)):
            remove_scratch(left)
    return Path(tempfile.mkdtemp(prefix=f"{ours}{os.getpid()}-"))


def remove_scratch(directory: Path) -> None:
    """Remove the directory with its content as far as possible. What is nested too deeply for Python stays."""
    with suppress(RecursionError):
        shutil.rmtree(directory, ignore_errors=True)


def _pid_namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # not on Linux
        return 0


# The name or reason of a layer may begin with `=`, `+`, `-`, `@`, a tab or a line break. A leading single quote makes
# the cell plain text (OWASP, "CSV Injection"). Numbers stay unchanged. Reading removes the quote again.

# A spreadsheet set to Japanese treats the full-width signs like the plain ones.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def escaped_cell(cell: Any) -> Any:
    """The cell as written to CSV: text that would run as a formula gets a leading quote, anything else stays.

    Control characters other than tabs and line breaks become escapes such as `\\x1b`.
    """
    if isinstance(cell, str):
        cell = _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", cell)
        if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
            return f"'{cell}"
    return cell


def unescaped(cell: Any) -> Any:
    """The cell as it was before `escaped_cell`."""
    return cell[1:] if isinstance(cell, str) and cell.startswith("'") and _FORMULA.match(cell) else cell


def to_csv(frame: "pd.DataFrame", float_format: str | None = None) -> str:
    """The table as CSV with a header; no spreadsheet runs its text cells as formulas.

    Raises OverflowError or TypeError if a number cannot be written.
    """
    lines = _Lines()
    _texts(frame, escaped_cell).to_csv(lines, index=False, float_format=float_format, lineterminator=_Lines.END)
    return lines.getvalue()


def from_csv(text: str) -> "pd.DataFrame":
    """Read a table that `to_csv` wrote. Raises ValueError if the text is not a table."""
    import pandas as pd

    return _texts(pd.read_csv(io.StringIO(text)), unescaped)


class _Lines(io.StringIO):
    """A buffer that collects CSV lines and ends each with a line feed.

    Python's `csv` quotes a carriage return in a cell only if the line terminator contains one. An unquoted carriage
    return would end the line, and a spreadsheet might run the rest of the cell. Lines are therefore written with `END`,
    which this buffer replaces.
    """

    END = "\r\n"

    def write(self, line: str) -> int:
        """Append one line from `csv.writer`."""
        return super().write(line.removesuffix(self.END) + "\n")


def _texts(frame: "pd.DataFrame", change: Callable[[Any], Any]) -> "pd.DataFrame":
    """The table with `change` applied to its text columns. Numeric columns are skipped: they would lose digits."""
    texts = frame.select_dtypes(exclude=["number", "bool"])
    return frame.assign(**{str(name): texts[name].map(change, na_action="ignore") for name in texts})
