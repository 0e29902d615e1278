"""`python -m harness <command> [key=value …]`: parse, run, print, exit. The commands are functions of this package."""

import importlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from types import FrameType
from typing import IO, Any, NoReturn

from harness import __version__
from harness.core.model.errors import UsageError, did_you_mean, notify
from harness.core.model.extra_tables import EXPLORE, GATE, MEASURE, READ, Command, entries

_TABLE = [
    Command(
        "sweep",
        MEASURE,
        "measure every case of a grid; write tables and plots to results/",
        "harness.cli.sweep",
        out="override",
    ),
    Command("verify", MEASURE, "compare layers' outputs and gradients with a float64 reference", "harness.cli.layers"),
    Command(
        "report",
        READ,
        "rebuild the tables and plots of a run from its rows",
        "harness.cli.stored_runs",
        out="flag",
    ),
    Command("status", READ, "show how far a sweep is: cases, shards, and who is measuring", "harness.cli.stored_runs"),
    Command(
        "predict",
        READ,
        "predict what a layer costs at a size that was not measured, with an interval",
        "harness.cli.predict",
    ),
    Command(
        "recommend",
        READ,
        "recommend a layer for a size, measured or not, and say how sure that is",
        "harness.cli.predict",
    ),
    Command(
        "baseline",
        GATE,
        "write what a run found to a file to commit, which `check` reads",
        "harness.cli.gates",
        out="flag",
    ),
    Command(
        "check",
        GATE,
        "measure a baseline's cases again and report what got worse: for CI",
        "harness.cli.gates",
        out="override",
    ),
    Command("list", EXPLORE, "list the layers that can be measured, or describe one of them", "harness.cli.layers"),
    Command("doctor", EXPLORE, "print what an issue report needs: versions, machine, packages", "harness.cli.machine"),
]
COMMANDS: dict[str, Command] = {command.name: command for command in [*_TABLE, *entries("COMMANDS")]}


def commands_by_group() -> dict[str, list[Command]]:
    """The commands of each group of the help."""
    groups = dict[str, list[Command]]()
    for command in COMMANDS.values():
        groups.setdefault(command.group, []).append(command)
    return groups


DONE, USAGE, CASES_FAILED = 0, 2, 3
CRASHED, INTERRUPTED = 70, 130
EXIT_STATUSES = {
    DONE: "done; for a gate, such as `check`: nothing got worse",
    1: "a gate found something that got worse",
    USAGE: "the command cannot be carried out as given; the message says what to type",
    CASES_FAILED: "done, but some case is `incorrect`, `error`, `killed` or unfinished, or could not be measured",
    CRASHED: "a bug in the harness: the traceback is on standard error",
    INTERRUPTED: "interrupted by Ctrl-C or SIGTERM; the measurements so far are on disk",
}
_UNSAID = "only the printed text is lost, and nothing else"


def run_process() -> NoReturn:
    """Run the command in this process's arguments, and end the process with its exit status."""
    try:
        status = main()
    except Exception:  # Python itself would exit with 1, which means that something got worse
        traceback.print_exc()
        status = CRASHED
    if status == INTERRUPTED:  # `main` has flushed its output, and a second Ctrl-C could still reach an exit handler
        os._exit(status)
    sys.exit(status)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0: done. 1: a gate found something that got worse. 2: usage error. 3: a case is incorrect, in error, killed or
    unfinished, or could not be measured. 130: interrupted. A bug raises its exception.

    The status stays the same if a reader such as `head` goes away. If standard output cannot be written, as on a full
    disk, 0 becomes 2.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    out, err = SafeStream(sys.stdout), SafeStream(sys.stderr)
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = _carry_out(arguments)
        finally:
            out.flush()
            if out.lost:
                notify(f"standard output cannot be written to ({out.lost}): {_UNSAID}")
    return USAGE if out.lost and status == DONE else status


def _carry_out(arguments: Sequence[str]) -> int:
    if len(arguments) > 1 and arguments[0] == "help":
        arguments = [arguments[1], "--help"]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
        return DONE if arguments else USAGE
    name = arguments[0]
    if name in ("-V", "--version", "version"):
        print(f"attn-harness {__version__}")
        return DONE
    if not hasattr(os, "waitid"):
        notify("it needs Linux (WSL on Windows), or macOS with Python 3.13 or newer")
        return USAGE
    handled = [signal.SIGTERM, signal.SIGALRM]
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        handled.append(signal.SIGINT)
    interrupt = _interrupt()
    previous = {number: signal.signal(number, interrupt) for number in handled}
    try:
        if name not in COMMANDS:
            raise UsageError(f"unknown command '{name}'{did_you_mean(name, [*COMMANDS, 'help'])}")
        _find_own_layers()
        options = importlib.import_module("harness.cli.parsers").parse_options(name, arguments[1:])
        return COMMANDS[name].run(options)
    except (UsageError, OSError) as error:  # an OSError: a full disk, a removed directory
        notify(" ".join(str(error).splitlines()))  # the input may contain line breaks
        return USAGE
    except KeyboardInterrupt as interrupted:  # it may say how to go on
        notify("; ".join(("interrupted", *interrupted.args)))
        return INTERRUPTED
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in previous.items():
            signal.signal(number, handler)


# An interrupt waits for the end of an import, and no longer than this product: a layer's module may never end.
_AGAIN_S, _TIMES = 0.05, 40


def _interrupt() -> Callable[[int, FrameType | None], None]:
    """A handler that ends a command by KeyboardInterrupt, on SIGTERM as on Ctrl-C.

    An import may swallow the exception or turn it into another, so the handler calls itself again after an import.
    """
    left = _TIMES

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal left
        left -= 1
        while frame and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
            frame = frame.f_back
        if frame is None or left < 0:
            raise KeyboardInterrupt
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)

    return interrupt


def _find_own_layers() -> None:
    """Search the current directory for the user's own layers too.

    The current directory comes last, as it may contain an `impls/` or a `torch.py`.
    """
    # After `--help`, which does not wait for `subprocess`.
    from harness.core.model.background_process import search_path

    here = os.getcwd()
    sys.path[:] = search_path([*(path for path in sys.path if path not in ("", here)), here])


def _help() -> str:
    width = max(map(len, COMMANDS))
    listed = ""
    for group, commands in commands_by_group().items():
        listed += f"\n{group}:\n"
        for command in commands:
            listed += f"  {command.name:<{width}}  {command.about}\n"
    return (
        "usage: python -m harness <command> [key=value …] [--flag …]\n\n"
        "Measure what RNN and attention layers cost: time and memory over sequence length, heads and width.\n"
        f"{listed}\n"
        "What is measured is a key=value; how the command behaves is a --flag.\n"
        "`python -m harness help <command>` describes both. `python -m harness --version` prints the version.\n"
        "`attn-harness` is short for `python -m harness`."
    )


class SafeStream:
    """A stream that goes silent where another raises OSError: a failure to print must not lose what was measured.

    All other attributes are those of `stream`, which is None if the process was started without one. `lost` is the
    reason why output could not be written. This reason is None while everything is written. It also stays None if the
    reader goes away, as `head` does, since no reader misses the output then.
    """

    def __init__(self, stream: IO[Any] | None) -> None:
        self._stream = stream
        self._silent = stream is None
        self.lost: str | None = None
        if isinstance(stream, io.TextIOWrapper):  # the terminal's encoding may lack `²`
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: Any) -> int:
        """Write `text`, a string or bytes, if possible. Returns the length of `text` in either case."""
        self._try(lambda stream: (stream.buffer if isinstance(text, bytes) else stream).write(text))
        return len(text)

    def flush(self) -> None:
        """Write out everything that is buffered, if possible."""
        self._try(lambda stream: stream.flush())

    @property
    def buffer(self) -> "SafeStream":
        """The stream itself, which takes bytes too: if text cannot be written, bytes cannot either."""
        return self

    def _try(self, act: Callable[[Any], Any]) -> None:
        if self._silent or self._stream is None:
            return
        try:
            act(self._stream)
        except OSError as error:
            self._silent = True
            if not isinstance(error, BrokenPipeError):
                self.lost = error.strerror or str(error)
            # Python flushes the rest of the buffer at exit, and would report the error then.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
