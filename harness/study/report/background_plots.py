"""All static plots of a run, drawn by a second process while this one fits cost models and writes tables.

Loading the drawing libraries alone takes a second, so the process starts before any plot is due. If the process fails,
this one draws everything itself, meets the same error and reports it.
"""

import pickle
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.core.model.background_process import search_path

# A function of `harness.study.report.plots.all_plots`, and its arguments.
_Order = tuple[str, tuple[Any, ...]]


class BackgroundPlots:
    """Draws one run's plots in a process that ends with this context at the latest."""

    def __init__(self) -> None:
        self._orders: list[_Order] = []
        self._handed_over: list[Path] = []

    def __enter__(self) -> "BackgroundPlots":
        self._process = start_interpreter(f"from {__name__} import serve_drawing; serve_drawing()", subprocess.DEVNULL)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()  # closes its pipes and waits for it
        for path in self._handed_over:
            path.unlink(missing_ok=True)

    def hand_over(self, function: str, *arguments: Any) -> None:
        """Hand over what a function of `all_plots`, by its name, is to draw. Returns at once."""
        order = function, arguments
        self._orders.append(order)
        process = self._process
        if process is None or process.stdin is None:
            return
        try:
            with tempfile.NamedTemporaryFile(prefix="harness-", delete=False) as file:
                self._handed_over.append(Path(file.name))
                pickle.dump(order, file, pickle.HIGHEST_PROTOCOL)
            # By file name: a pipe full of lines would block this process until the other has loaded its libraries.
            process.stdin.write(f"{file.name}\n".encode())
            process.stdin.flush()
        except OSError:  # no space for the file, or the process has died: `finish` draws without it
            process.kill()

    def finish(self) -> None:
        """Wait until everything is drawn. Raises OSError if a plot cannot be written."""
        if not self._orders:
            return
        if self._process is not None:
            self._process.communicate()  # no more orders
        if self._process is None or self._process.returncode:
            for order in self._orders:
                _draw(order)


def start_interpreter(work: str, stdout: int) -> "subprocess.Popen[bytes] | None":
    """Run code in a separate process, with this search path; None if the OS could not start one.

    It is started from scratch. A fork would copy threads and locks of a parent that may have plotted, logged or
    multiplied matrices. `multiprocessing` would run the caller's main module a second time.
    """
    path = search_path([str(place) for place in sys.path])
    # `os._exit` skips the cleanup of torch and the plotting libraries, which takes half a second.
    program = f"import os, sys; sys.path[:] = {path!r}; {work}; sys.stdout.flush(); os._exit(0)"
    with suppress(OSError):  # no memory for another process, or no interpreter found
        return subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.DEVNULL
        )
    return None


def serve_drawing() -> None:
    """The work of the process: load the libraries, then draw what the files named on standard input hold."""
    import harness.study.report.plots.all_plots  # noqa: F401  loaded while the orders are made

    for name in sys.stdin.buffer:
        with open(name.decode().removesuffix("\n"), "rb") as file:
            order = pickle.load(file)
        _draw(order)


def _draw(order: _Order) -> None:
    from .plots import all_plots  # loads the drawing libraries

    function, arguments = order
    getattr(all_plots, function)(*arguments)
