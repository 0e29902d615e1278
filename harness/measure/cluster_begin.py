"""The start of a job's process. Its function is pickled by value, so a job calls it before it imports any harness.

A job first searches its own current directory and environment for modules. These may hold another checkout.
"""

from collections.abc import Sequence


def begin(path: Sequence[str], task: bytes) -> None:
    """Set `sys.path` to `path`, then call the function in `task`, which is pickled with its argument."""
    import pickle
    import sys

    sys.path[:] = path
    function, argument = pickle.loads(task)
    function(argument)
