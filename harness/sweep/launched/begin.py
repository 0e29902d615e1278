"""How a job's process begins. Its function is pickled by value, so a job runs it before it imports any harness.

The job finds modules in its own current directory and environment first, and these may have another checkout.
"""

from collections.abc import Sequence


def begin(path: Sequence[str], task: bytes) -> None:
    """Search for modules along `path`, then call the function that `task` holds, pickled with its argument."""
    import pickle
    import sys

    sys.path[:] = path
    function, argument = pickle.loads(task)
    function(argument)
