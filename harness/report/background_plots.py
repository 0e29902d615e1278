"""All static plots of a run, drawn by a second process while this one fits cost models and writes tables.

Loading the drawing libraries alone takes a second, so the process starts before any plot is due. If the process fails,
this one draws everything itself, meets the same error and reports it.
"""

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.background_process import BackgroundProcess

if TYPE_CHECKING:  # only: an early start must not wait for what this import loads
    from harness.results.columns import CaseResult

_Order = tuple[Path, Sequence["CaseResult"], Mapping[str, Any]]


class BackgroundPlots:
    """Draws one run's plots in a process that ends with this context at the latest."""

    def __init__(self) -> None:
        self._order: _Order | None = None
        self._handed_over: Path | None = None

    def __enter__(self) -> "BackgroundPlots":
        name = serve_drawing.__name__
        self._interpreter = BackgroundProcess(__name__, name, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_: object) -> None:
        self._interpreter.close()
        if self._handed_over is not None:
            self._handed_over.unlink(missing_ok=True)

    def begin(self, directory: Path, lines: "Sequence[CaseResult]", machine: Mapping[str, Any]) -> None:
        """Hand over the lines to draw and, for the roofline, the machine's description. Returns at once."""
        self._order = (directory, lines, machine)
        process = self._interpreter.process
        if process is None or process.stdin is None:
            return
        try:
            with tempfile.NamedTemporaryFile(prefix="harness-", delete=False) as file:
                self._handed_over = Path(file.name)
                pickle.dump(self._order, file, pickle.HIGHEST_PROTOCOL)
            # By file name: a pipe full of lines would block this process until the other has loaded its libraries.
            process.stdin.write(file.name.encode())
            process.stdin.close()
        except OSError:  # no space for the file, or the process has died: `finish` draws without it
            process.kill()

    def finish(self) -> None:
        """Wait until everything is drawn. Raises OSError if a plot cannot be written."""
        if self._order is None:
            return
        process = self._interpreter.process
        if process is None or process.wait() != 0:
            from harness.report.plots.overviews import draw  # loads the drawing libraries

            draw(*self._order)


def serve_drawing() -> None:
    """The work of the process: load the libraries, then draw what the file named on standard input holds."""
    from harness.report.plots.overviews import draw

    name = sys.stdin.buffer.read().decode()
    if not name:
        return
    with open(name, "rb") as file:
        order: _Order = pickle.load(file)
    draw(*order)
