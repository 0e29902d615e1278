"""What went wrong when a layer was to be compiled, as a status and one line."""

import re
from collections.abc import Iterator
from typing import Any

_SAID = "it was not compiled: "
_COMPILERS_OWN = ("torch._dynamo.exc", "torch._inductor.exc")
_NO_CXX = (
    "torch.compile needs a C++ compiler and found none: install g++ (on Debian `apt-get install g++`), "
    "or name yours in the environment variable CXX"
)
_NO_TRITON = "torch.compile needs Triton on a GPU: `pip install triton`"
# A kernel that Triton has made needs more shared memory or registers than this GPU has. That is no lack of memory:
# with less of anything else it would not run either.
TOO_LARGE = re.compile(r"out of resources?: [^\n]*")
# Lowering an operator says so in words, the exception itself being lost on the way.
_NOT_IMPLEMENTED = re.compile(r"NotImplementedError: ([^\n]+)")


class NotCompiled(Exception):
    """A layer that is to be compiled ran as it is written."""


class CompiledAgain(Exception):
    """A layer was compiled once more while it was timed."""


def compile_failure(error: BaseException) -> dict[str, Any] | None:
    """Status and reason of an exception that came of compiling; None of any other."""
    if isinstance(error, NotCompiled):
        return {"status": "error", "reason": f"{_SAID}{error}"}
    if isinstance(error, CompiledAgain):
        return {"status": "error", "reason": str(error)}
    chain = list(_chain(error))
    if not any(type(one).__module__ in _COMPILERS_OWN for one in chain):
        return None
    names = {type(one).__name__ for one in chain}
    # By name or, where lowering an operator lost the exception on the way, by its words.
    if "InvalidCxxCompiler" in names or "InvalidCxxCompiler" in str(error):
        return {"status": "unsupported", "reason": _NO_CXX}
    if "TritonMissing" in names:
        return {"status": "unsupported", "reason": _NO_TRITON}
    if any(isinstance(one, MemoryError) or type(one).__name__ == "OutOfMemoryError" for one in chain):
        return {"status": "oom", "reason": "out of memory while compiling"}
    too_large = TOO_LARGE.search(str(error))
    if too_large:
        return {"status": "unsupported", "reason": too_large[0][:300]}
    missing = _NOT_IMPLEMENTED.search(str(error))
    if missing or "GPUTooOldForTriton" in names:
        return {"status": "unsupported", "reason": missing[1][:300] if missing else _first_line(chain[-1])}
    return {"status": "error", "reason": f"{_SAID}{_first_line(error)}"}


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and those that it came of."""
    at: BaseException | None = error
    while at is not None:
        yield at
        inner = getattr(at, "inner_exception", None)
        at = inner if isinstance(inner, BaseException) else at.__cause__


def _first_line(error: BaseException) -> str:
    """The first lines have what happened, the rest advice and listings."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:2])}"[:300]
