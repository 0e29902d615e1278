"""A process that draws while this one finds laws and writes tables: the drawing libraries alone take a second to load.

It is an interpreter of its own, started before there is anything to draw. Where it comes to nothing, everything is
drawn here, and what it failed of is met and told here.
"""

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # only: whoever starts it early must not wait for what it loads
    from harness.summary import Line

_PROGRAM = "import sys; sys.path[:] = {path!r}; from harness.report.studio import draw_what_comes; draw_what_comes()"
_Order = tuple[Path, Sequence["Line"], Mapping[str, Any]]


class Studio:
    """Draws one run's pictures, in a process that ends with this context at the latest."""

    def __init__(self) -> None:
        self._order: _Order | None = None
        self._handed_over: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Studio":
        program = _PROGRAM.format(path=[str(place) for place in sys.path])
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError:  # no room for one more process
            self._process = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            with self._process:  # closes its pipe and waits for it
                pass
        if self._handed_over is not None:
            self._handed_over.unlink(missing_ok=True)

    def begin(self, directory: Path, lines: "Sequence[Line]", machine: Mapping[str, Any]) -> None:
        """Hand over what to draw, and the machine's description for the roofline; returns at once."""
        self._order = (directory, lines, machine)
        if self._process is None or self._process.stdin is None:
            return
        with tempfile.NamedTemporaryFile(prefix="harness-", delete=False) as file:
            pickle.dump(self._order, file, pickle.HIGHEST_PROTOCOL)
        self._handed_over = Path(file.name)
        try:
            # By name: a pipe would hold up the writer until the other has loaded its libraries.
            self._process.stdin.write(file.name.encode())
            self._process.stdin.close()
        except BrokenPipeError:  # it has come to nothing, which `finish` will see
            pass

    def finish(self) -> None:
        """Wait until all is drawn. Raises OSError where it cannot be written."""
        if self._order is None:
            return
        if self._process is None or self._process.wait() != 0:
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
