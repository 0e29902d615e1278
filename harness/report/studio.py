"""A process that draws while this one finds laws and writes tables: the drawing libraries alone take a second to load.

It is started before there is anything to draw. Where it comes to nothing, everything is drawn here, and what it failed
of is met and told here.
"""

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.interpreter import Interpreter

if TYPE_CHECKING:  # only: whoever starts it early must not wait for what it loads
    from harness.summary import Line

_Order = tuple[Path, Sequence["Line"], Mapping[str, Any]]


class Studio:
    """Draws one run's pictures, in a process that ends with this context at the latest."""

    def __init__(self) -> None:
        self._order: _Order | None = None
        self._handed_over: Path | None = None

    def __enter__(self) -> "Studio":
        name = draw_what_comes.__name__
        self._interpreter = Interpreter(__name__, name, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_: object) -> None:
        self._interpreter.close()
        if self._handed_over is not None:
            self._handed_over.unlink(missing_ok=True)

    def begin(self, directory: Path, lines: "Sequence[Line]", machine: Mapping[str, Any]) -> None:
        """Hand over what to draw, and the machine's description for the roofline; returns at once."""
        self._order = (directory, lines, machine)
        process = self._interpreter.process
        if process is None or process.stdin is None:
            return
        try:
            with tempfile.NamedTemporaryFile(prefix="harness-", delete=False) as file:
                self._handed_over = Path(file.name)
                pickle.dump(self._order, file, pickle.HIGHEST_PROTOCOL)
            # By name: a pipe would hold up the writer until the other has loaded its libraries.
            process.stdin.write(file.name.encode())
            process.stdin.close()
        except OSError:  # no disk to hand it over, or the process has come to nothing: `finish` does without
            process.kill()

    def finish(self) -> None:
        """Wait until all is drawn. Raises OSError where it cannot be written."""
        if self._order is None:
            return
        process = self._interpreter.process
        if process is None or process.wait() != 0:
            _draw(self._order)


def draw_what_comes() -> None:
    """What the process does: load the libraries, then draw what standard input names."""
    import harness.report.plots.draw  # noqa: F401

    name = sys.stdin.buffer.read().decode()
    if not name:
        return
    with open(name, "rb") as file:
        order: _Order = pickle.load(file)
    _draw(order)


def _draw(order: _Order) -> None:
    from harness.report.plots.draw import draw

    draw(*order)
