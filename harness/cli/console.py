"""A console that outlives its reader: a sweep must not end because `head` has seen enough."""

import os
import sys

from rich.console import Console


class SteadyConsole(Console):
    """Falls silent where rich's own would end the process."""

    def on_broken_pipe(self) -> None:
        """Print nothing from here on, not even what is still in the buffer."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
