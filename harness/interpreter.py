"""One more interpreter of our own, for work beside this one's.

Started from nothing: not a fork, which would copy the threads and locks of a parent that may have drawn, logged or
multiplied matrices, and not one of `multiprocessing`, which runs the caller's main module once more.
"""

import subprocess
import sys
from typing import IO, Any

from harness.checkout import search_path

# Out at once when all is done: to free what the kernel frees faster takes torch and what draws half a second.
_PROGRAM = """
import os, sys
sys.path[:] = {path!r}
from {module} import {function}
{function}()
sys.stdout.flush()
os._exit(0)
"""


class Interpreter:
    """Runs `function` of `module` in a process that ends with this context at the latest.

    `process` is None where there was no room for one. What it fails of it tells nobody: who starts it must be able to
    do the work without it, and meets the failure then.
    """

    def __init__(self, module: str, function: str, stdin: int | IO[Any], stdout: int) -> None:
        program = _PROGRAM.format(
            path=search_path([str(place) for place in sys.path]), module=module, function=function
        )
        try:
            self.process: subprocess.Popen[bytes] | None = subprocess.Popen(
                [sys.executable, "-c", program], stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL
            )
        except OSError:  # no room for one more, or no interpreter to be found
            self.process = None

    def close(self) -> None:
        """End the process, whatever it is at."""
        if self.process is not None:
            self.process.kill()
            with self.process:  # closes its pipes and waits for it
                pass
