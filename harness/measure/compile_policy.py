"""The rules for layers that compile: when a trial compiles, how long it may take, and where its code is kept."""

import hashlib
from pathlib import Path

from harness import layer_lookup
from harness.measure.outcome import TrialOutcome
from harness.results.row import kind_of
from harness.sweep_axes import Case


class CompilePolicy:
    """Which layers compile, the time limits of trials, and the directories where compiled code is kept.

    The registry says which built-in layers compile. A user's own layer is known to compile once a trial reports it, at
    the latest the first verification.

    A trial may take `timeout_s` seconds, and one that compiles `compile_timeout_s`. Compiled code is kept under the
    directory `cache`, which is made on first use. None stands for torch's own directory.
    """

    def __init__(self, timeout_s: float, compile_timeout_s: float, cache: Path | None) -> None:
        self._timeout_s, self.compile_timeout_s = timeout_s, compile_timeout_s
        self._cache = cache.absolute() if cache is not None else None
        self._found: set[str] = set()
        self._compile_s: dict[Case, float] = {}

    def with_cache(self, cache: Path) -> "CompilePolicy":
        """The same limits with another directory, and without knowledge about layers."""
        return CompilePolicy(self._timeout_s, self.compile_timeout_s, cache)

    def is_due(self, purpose: str, case: Case | None) -> bool:
        """Whether a trial is known to compile, or to load compiled code."""
        if case is None or not kind_of(purpose).builds_layer:
            return False
        return layer_lookup.is_compiled(case.impl) or case.impl in self._found

    def limit_s(self, purpose: str, case: Case | None) -> float:
        """The time limit of a trial, in seconds.

        A timed trial of a compiled layer loads its code and at worst compiles it again. It also checks its last call
        with a second layer. The compile time of the case is therefore added twice.
        """
        if not self.is_due(purpose, case):
            return self._timeout_s
        if kind_of(purpose).is_timed and case is not None:
            return self._timeout_s + 2 * self._compile_s.get(case, 0.0)
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

    def learn(self, purpose: str, case: Case | None, outcome: TrialOutcome) -> None:
        """Remember from a trial's outcome whether the layer compiles, and how long that took."""
        if case is None:
            return
        if outcome.values.get("compiled"):
            self._found.add(case.impl)
        if purpose == "compile":
            self._compile_s[case] = outcome.values.get("compile_s", 0.0)
