"""`python -m harness <command> [key=value …]`: parse, run, print, exit. The commands are functions of this package."""

import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from types import FrameType
from typing import NoReturn

from harness.checkout import search_path
from harness.cli.options import SafeStream
from harness.errors import UsageError, did_you_mean

COMMANDS = {
    "sweep": "measure every case of a grid; write tables and plots to results/",
    "status": "show how far a sweep is, from its files: cases, shards, and who is measuring; measures nothing",
    "report": "rebuild the tables and plots of a run from its rows; measures nothing",
    "export": "write a run as pytest-benchmark JSON, CSV or Parquet, or for github-action-benchmark",
    "predict": "predict what a layer costs at a size that was not measured, with an interval",
    "recommend": "recommend a layer for a size, measured or not: how much faster it is, and how sure that is",
    "attention-map": "draw which word of a sentence attends to which in a layer, as a heat map",
    "gradient-reach": "measure how far back a layer's output depends on its input: gradients over distance, and decay",
    "baseline": "write what a run found to a file to commit, which `check` reads; measures nothing",
    "check": "measure a baseline's cases again and report what got worse: for CI",
    "compare": "measure two layers, or a layer at two commits, side by side: slower, faster, equivalent or undecided",
    "list": "list the layers that can be measured, and what theory claims of them",
    "verify": "compare layers' outputs and gradients with a float64 reference",
    "calibrate": "report whether this machine is fit to measure on, and what to change",
}
# The module of each command, where it has another name. The command `x-y` is its function `run_x_y`.
_MODULES = {
    **dict.fromkeys(("report", "export"), "runs"),
    **dict.fromkeys(("predict", "recommend"), "predict"),
    **dict.fromkeys(("attention-map", "gradient-reach"), "inspect"),
    **dict.fromkeys(("list", "verify"), "layers"),
    "baseline": "check",
}
DONE, USAGE, CASES_FAILED = 0, 2, 3
INTERRUPTED = 130
_UNSAID = "only the printed text is lost, and nothing else"


def run_process() -> NoReturn:
    """Run the command in this process's arguments, and end the process with its exit status.

    While modules are imported, dataclasses run source text with `exec`. If an interrupt reaches that text, CPython
    ends the process by SIGINT, whatever its exit status. So an interrupted command ends its process directly.
    """
    status = main()
    if status == INTERRUPTED:  # `main` has flushed its output
        os._exit(status)
    sys.exit(status)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0: done. 1: something got worse (`check`, `compare`). 2: usage error. 3: a case is incorrect, in error, killed or
    unfinished, or could not be measured. 130: interrupted.

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
                print(f"harness: standard output cannot be written to ({out.lost}): {_UNSAID}", file=sys.stderr)
    return USAGE if out.lost and status == DONE else status


def _carry_out(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return DONE if arguments else USAGE
    name = arguments[0]
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        if name not in COMMANDS:
            raise UsageError(f"unknown command '{name}'{did_you_mean(name, COMMANDS)}")
        _find_own_layers()
        module = importlib.import_module(f"harness.cli.{_MODULES.get(name, name)}")
        run: Callable[[Sequence[str]], int] = getattr(module, f"run_{name.replace('-', '_')}")
        return run(arguments[1:])
    except UsageError as error:
        print(f"harness: {' '.join(str(error).splitlines())}", file=sys.stderr)  # the input may contain line breaks
        return USAGE
    except OSError as error:  # a full disk, a removed directory
        print(f"harness: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("harness: interrupted", file=sys.stderr)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, previous)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End a command on SIGTERM as on Ctrl-C."""
    raise KeyboardInterrupt


def _find_own_layers() -> None:
    """Search the current directory for the user's own layers too.

    The current directory comes last, as it may contain an `impls/` or a `torch.py`.
    """
    here = os.getcwd()
    sys.path[:] = search_path([*(path for path in sys.path if path not in ("", here)), here])


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())
    return (
        "usage: python -m harness <command> [key=value …]\n\n"
        "Measure what RNN and attention layers cost: time and memory over sequence length, heads and width.\n\n"
        f"{commands}\n\n"
        "`python -m harness <command> --help` describes the options of a command."
    )
