"""What is to be minded of layers that compile: who does, where it is kept, and how much more time a trial so needs.

Ours say in the registry that they compile. Of somebody's own it is found out by the first verification of the layer.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import catalog
from harness.case import Case

# What does not build a layer compiles nothing.
_NO_LAYER = ("machine", "describe", "pulse", "flops", "bandwidth")


class Compiling:
    """`timeout_s` is the longest that a trial may take, `compile_timeout_s` one that compiles. `cache` is the directory
    under which compiled code is kept, made at the first need; None: where torch keeps it by itself.
    """

    def __init__(self, timeout_s: float, compile_timeout_s: float, cache: Path | None) -> None:
        self._timeout_s, self.compile_timeout_s = timeout_s, compile_timeout_s
        self._cache = cache.absolute() if cache is not None else None
        self._found: set[str] = set()
        self._took_s: dict[Case, float] = {}

    def is_due(self, purpose: str, case: Case | None) -> bool:
        """Whether a trial is known to compile, or to load what was compiled."""
        if case is None or purpose in _NO_LAYER:
            return False
        return catalog.is_compiled(case.impl) or case.impl in self._found

    def limit_s(self, purpose: str, case: Case | None) -> float:
        """How long a trial may take. One that is timed loads what was compiled, at worst compiles it again, and checks
        its last call with a second layer.
        """
        if not self.is_due(purpose, case):
            return self._timeout_s
        if purpose == "time" and case is not None:
            return self._timeout_s + 2 * self._took_s.get(case, 0.0)
        return max(self._timeout_s, self.compile_timeout_s)

    def directory(self, purpose: str, case: Case | None) -> str | None:
        """Where the case's trials keep what they compile.

        A verification has its own, though it may be of the very same case: the trial that measures how long compiling
        takes must find nothing.
        """
        if self._cache is None or case is None:
            return None
        name = f"verify {case.key}" if purpose == "verify" else case.key
        return str(self._cache / hashlib.sha256(name.encode()).hexdigest()[:16])

    def learn(self, purpose: str, case: Case | None, outcome: Mapping[str, Any]) -> None:
        """Take in what a trial has shown."""
        if case is None:
            return
        if outcome.get("compiled"):
            self._found.add(case.impl)
        if purpose == "compile":
            self._took_s[case] = outcome.get("compile_s", 0.0)
