"""A second Python interpreter that works in parallel to this one.

The interpreter is started from scratch. A fork would copy threads and locks of a parent that may have plotted, logged
or multiplied matrices. `multiprocessing` would run the caller's main module a second time.
"""

import subprocess
import sys
from typing import IO, Any

from harness.checkout import search_path

# `os._exit` skips the cleanup of torch and the plotting libraries, which takes half a second. The kernel frees their
# memory faster.
_PROGRAM = """
import os, sys
sys.path[:] = {path!r}
from {module} import {function}
{function}()
sys.stdout.flush()
os._exit(0)
"""


class BackgroundProcess:
    """Runs `function` of `module` in a separate process that `close` ends at the latest.

    `process` is None if the OS could not start one. Errors inside the process are not reported. The caller must be
    able to do the work itself, and will see the error there.
    """

    def __init__(self, module: str, function: str, stdin: int | IO[Any], stdout: int) -> None:
        program = _PROGRAM.format(
            path=search_path([str(place) for place in sys.path]), module=module, function=function
        )
        try:
            self.process: subprocess.Popen[bytes] | None = subprocess.Popen(
                [sys.executable, "-c", program], stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL
            )
        except OSError:  # no memory for another process, or no interpreter found
            self.process = None

    def close(self) -> None:
        """End the process, even if it is still working."""
        if self.process is not None:
            self.process.kill()
            with self.process:  # closes its pipes and waits for it
                pass
