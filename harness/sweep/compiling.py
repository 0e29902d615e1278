"""Rules for layers that compile: which ones do, where compiled code is kept, and the time limits of their trials.

The registry says which built-in layers compile. A user's own layer is known to compile once a trial reports it, at the
latest the first verification.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import catalog
from harness.case import Case

# Trials of these purposes build no layer, so they compile nothing.
_NO_LAYER = ("machine", "describe", "pulse", "flops", "bandwidth")


class Compiling:
    """Time limits and cache directories of trials, for layers that compile and for others.

    A trial may take `timeout_s` seconds, and one that compiles `compile_timeout_s`. Compiled code is kept under the
    directory `cache`, which is made on first use. None stands for torch's own directory.
    """

    def __init__(self, timeout_s: float, compile_timeout_s: float, cache: Path | None) -> None:
        self._timeout_s, self.compile_timeout_s = timeout_s, compile_timeout_s
        self._cache = cache.absolute() if cache is not None else None
        self._found: set[str] = set()
        self._took_s: dict[Case, float] = {}

    def is_due(self, purpose: str, case: Case | None) -> bool:
        """Whether a trial is known to compile, or to load compiled code."""
        if case is None or purpose in _NO_LAYER:
            return False
        return catalog.is_compiled(case.impl) or case.impl in self._found

    def limit_s(self, purpose: str, case: Case | None) -> float:
        """The time limit of a trial, in seconds.

        A timed trial of a compiled layer loads its code and at worst compiles it again. It also checks its last call
        with a second layer. The compile time of the case is therefore added twice.
        """
        if not self.is_due(purpose, case):
            return self._timeout_s
        if purpose == "time" and case is not None:
            return self._timeout_s + 2 * self._took_s.get(case, 0.0)
        return max(self._timeout_s, self.compile_timeout_s)

    def directory(self, purpose: str, case: Case | None) -> str | None:
        """The directory in which the case's trials keep compiled code; None for torch's own.

        Verifications have a separate directory, even for the same case. The trial that measures the compile time must
        find no compiled code.
        """
        if self._cache is None or case is None:
            return None
        name = f"verify {case.key}" if purpose == "verify" else case.key
        return str(self._cache / hashlib.sha256(name.encode()).hexdigest()[:16])

    def learn(self, purpose: str, case: Case | None, outcome: Mapping[str, Any]) -> None:
        """Remember from a trial's outcome whether the layer compiles, and how long that took."""
        if case is None:
            return
        if outcome.get("compiled"):
            self._found.add(case.impl)
        if purpose == "compile":
            self._took_s[case] = outcome.get("compile_s", 0.0)
