"""Whether a package can run a case, judged from the case and the installed packages, without importing it."""

from importlib.util import find_spec
from typing import Any


def refusal(case: Any, package: str, project: str, dtypes: tuple[str, ...]) -> str | None:
    """Return why `project`, imported as `package`, cannot run the case, or None if nothing prevents it.

    Reasons that installing the package would not solve come first.
    """
    if case.device != "cuda":
        return f"{project} computes on device=cuda alone"
    if case.dtype not in dtypes:
        return f"{project} computes in {' or '.join(dtypes)}, not in {case.dtype}"
    if find_spec(package) is None:
        return f"{project} is not installed: pip install {project}"
    return None
