"""A process that folds one share of a run's rows while other processes fold theirs."""

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from harness.interpreter import Interpreter
from harness.store import Part, Reading, read
from harness.summary.fold import Fold


def fold_share(share: Sequence[Part]) -> tuple[Fold, list[Reading]]:
    """Fold the rows of some parts in their order. Return the fold and one `Reading` per part."""
    fold = Fold()
    return fold, [read(part, fold.add) for part in share]


def help_out() -> None:
    """Entry point of a helper process: read a share from standard input, fold it, write the result to stdout."""
    share = pickle.load(sys.stdin.buffer)
    pickle.dump(fold_share(share), sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)


class Helper:
    """Folds a share in a separate process. It starts at once and ends with this context at the latest."""

    def __init__(self, share: Sequence[Part]) -> None:
        self._share = share
        try:
            self._interpreter: Interpreter | None = _started(share)
        except OSError:  # no disk space for the temporary file: `result` folds the share here
            self._interpreter = None

    def __enter__(self) -> "Helper":
        return self

    def __exit__(self, *_: object) -> None:
        if self._interpreter is not None:
            self._interpreter.close()

    def result(self) -> tuple[Fold, list[Reading]]:
        """The folded share. If the process failed, was killed or lacked memory, this process folds the share itself."""
        process = self._interpreter.process if self._interpreter is not None else None
        if process is not None:
            out, _ = process.communicate()
            if process.returncode == 0:
                return pickle.loads(out)
        return fold_share(self._share)


def _started(share: Sequence[Part]) -> Interpreter:
    with tempfile.TemporaryFile() as given:
        pickle.dump(share, given)
        given.seek(0)
        return Interpreter(__name__, help_out.__name__, stdin=given, stdout=subprocess.PIPE)
