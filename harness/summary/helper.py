"""A process that folds a share of a run's rows while others fold theirs.

It is an interpreter of its own, started from nothing: not a fork, which would copy the threads and locks of a parent
that may have drawn, logged or multiplied matrices, and not one of `multiprocessing`, which runs the caller's main
module once more.
"""

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from harness.store import Part, Reading, read
from harness.summary.fold import Fold

_PROGRAM = "import sys; sys.path[:] = {path!r}; from harness.summary.helper import help_out; help_out()"


def fold_share(share: Sequence[Part]) -> tuple[Fold, list[Reading]]:
    """What the rows of some parts say, in their order, and what became of each part."""
    fold = Fold()
    return fold, [read(part, fold.add) for part in share]


def help_out() -> None:
    """What a helper does: fold the share that it is given on standard input, and write what it says."""
    share = pickle.load(sys.stdin.buffer)
    pickle.dump(fold_share(share), sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)


class Helper:
    """Begins to fold a share at once, in a process that ends with this context at the latest."""

    def __init__(self, share: Sequence[Part]) -> None:
        self._share = share
        try:
            self._process: subprocess.Popen[bytes] | None = _started(share)
        except OSError:  # no room for one more process, or no disk to hand the share over: `result` does without
            self._process = None

    def __enter__(self) -> "Helper":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            with self._process:  # closes its pipe and waits for it
                pass

    def result(self) -> tuple[Fold, list[Reading]]:
        """What the share says. Where the process came to nothing, killed or without memory, it is folded here."""
        if self._process is not None:
            out, _ = self._process.communicate()
            if self._process.returncode == 0:
                return pickle.loads(out)
        return fold_share(self._share)


def _started(share: Sequence[Part]) -> "subprocess.Popen[bytes]":
    with tempfile.TemporaryFile() as given:
        pickle.dump(share, given)
        given.seek(0)
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(path=[str(place) for place in sys.path])],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what it fails of, `result` meets as well, and tells
        )
