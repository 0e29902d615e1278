"""Whether a package can be asked for a case: told from the case and from what is installed, without importing it."""

from importlib.util import find_spec
from typing import Any


def refusal(case: Any, package: str, project: str, dtypes: tuple[str, ...]) -> str | None:
    """Why `project`, imported as `package`, cannot run the case; None if nothing speaks against it.

    What no installation can help comes first.
    """
    if case.device != "cuda":
        return f"{project} computes on device=cuda alone"
    if case.dtype not in dtypes:
        return f"{project} computes in {' or '.join(dtypes)}, not in {case.dtype}"
    if find_spec(package) is None:
        return f"{project} is not installed: pip install {project}"
    return None
