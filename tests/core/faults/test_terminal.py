"""A sweep without a terminal, and on a terminal of 40 columns."""

import fcntl
import os
import pty
import re
import struct
import termios
from pathlib import Path

import pandas as pd
from core.faults.driver import GRID, Driver, environment, lines_of, nothing_remains
from rich.cells import cell_len

from harness.core.model import formatting

# A shell that closes the standard streams before it becomes the sweep.
_CLOSED = ("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")
_COLUMNS = 40
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_without_a_terminal_or_any_open_stream_it_measures_as_ever(tmp_path: Path) -> None:
    without = {name: value for name, value in environment(str(tmp_path)).items() if name != "TERM"}
    with Driver(tmp_path, *GRID, mark=str(tmp_path), within=_CLOSED, env=without, start_new_session=True) as driver:
        assert driver.ended() == 0
        assert (driver.out, driver.err) == ("", "")
    assert (pd.read_csv(tmp_path / "run" / "summary.csv").status == "ok").all()
    assert lines_of(tmp_path / "run")
    assert nothing_remains(str(tmp_path))


def test_on_a_terminal_of_40_columns_no_line_is_wider_and_no_number_is_cut(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, _COLUMNS, 0, 0))
    xterm = {**environment(str(tmp_path)), "TERM": "xterm"}
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with Driver(tmp_path, *GRID, mark=str(tmp_path), env=xterm, start_new_session=True, **streams) as driver:
        os.close(theirs)
        said = _read_to_the_end(ours)
        assert driver.ended() == 0
    assert "Traceback" not in said
    # The terminal wraps the last lines, which name files and commands.
    answer = said[said.index("Cost of one call") : said.rindex("Report: ")]
    assert [line for line in _CONTROL.sub("", answer).splitlines() if cell_len(line) > _COLUMNS] == []
    assert "…" not in answer
    summary = pd.read_csv(tmp_path / "run" / "summary.csv")
    for row in summary[summary.seq_len == summary.seq_len.max()].itertuples():
        assert set(formatting.seconds(row.time_s).split()) <= set(answer.split())
    assert "no room here for: peak memory" in " ".join(answer.split())
    assert nothing_remains(str(tmp_path))


def _read_to_the_end(terminal: int) -> str:
    said = b""
    try:
        while part := os.read(terminal, 2**16):
            said += part
    except OSError:  # the terminal's other end is closed
        pass
    finally:
        os.close(terminal)
    return said.decode()
