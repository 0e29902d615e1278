"""Run one trial in a fresh process, forked from a fork server, and turn whatever happens into an outcome."""

import time
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from harness.case import Case
from harness.errors import UsageError
from harness.sweep.compiling import Compiling
from harness.sweep.outcome import failed
from harness.sweep.turn_trial import TurnTrial, TurnTrialFailed
from harness.sweep.warm_parent import NoAnswer, NoProcess, WarmParent, WarmParentLost

# Share of the free memory that stays free if the user sets no limit.
_FREE_SHARE = 0.1
# A user's module that takes longer to import, in seconds, gets a separate fork server. Starting one takes as long.
_SLOW_IMPORT_S = 0.2
# A cold compilation takes half a minute. A large layer on a slow machine takes some minutes.
COMPILE_TIMEOUT_S = 900.0


class Runner:
    """Runs trials on this machine, one at a time. A context manager: its fork servers end with it.

    Weights and inputs are drawn from `seed`. `trial_s` is the sampling time of a timed trial. A trial may take
    `timeout_s`, and one that compiles `compile_timeout_s`. All three are in seconds. A trial may allocate
    `memory_limit` bytes (None: 90 % of the memory that is free now). Compiled code is kept under `compile_cache`, or in
    torch's own directory. `path` replaces `sys.path` in the search for layers.

    Trials that compile have a separate fork server. With the compiler imported, a server is half as large again, and
    every trial forked from it would bear that cost. A user's module that is slow to import also has a separate server.
    Only its own trials use it: changes that the module makes in torch must not reach other trials.
    """

    def __init__(
        self,
        *,
        seed: int,
        trial_s: float,
        timeout_s: float,
        memory_limit: int | None,
        compile_timeout_s: float = COMPILE_TIMEOUT_S,
        compile_cache: Path | None = None,
        path: Sequence[str] | None = None,
    ) -> None:
        self.seed = seed
        self.trial_s = trial_s
        self._path = path
        self.memory_limit = memory_limit or int((1 - _FREE_SHARE) * psutil.virtual_memory().available)
        self._compiling = Compiling(timeout_s, compile_timeout_s, compile_cache)
        self._checked: set[Case] = set()  # cases that a timed trial has shown to keep no results
        self._slow: set[str] = set()  # layers whose module is imported in a separate fork server
        # The keys: whether the trials compile, and the slow module (empty for all other modules).
        self._parents: dict[tuple[bool, str], WarmParent] = {}

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.drop()

    def drop(self) -> None:
        """End the fork servers. The next trial starts a new one. Knowledge about layers is kept."""
        for which in list(self._parents):
            self._drop_parent(which)

    def twin(self) -> "Runner":
        """A copy with separate fork servers. Both runners share their knowledge about layers."""
        other = copy(self)
        other._parents = {}
        return other

    def start(self, compiles: bool = False, module: str = "") -> None:
        """Start the fork server without waiting for it: its imports take a second.

        Raises UsageError if the system cannot start a process.
        """
        try:
            self._start(compiles, module)
        except NoProcess as error:
            raise UsageError(str(error)) from error

    def _start(self, compiles: bool, module: str) -> None:
        if (compiles, module) not in self._parents:
            self._parents[compiles, module] = WarmParent(self._path)

    def run(self, purpose: str, case: Case | None = None, extra: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run a trial and return its outcome: `status`, `reason`, `wall_s` and the measured values.

        `extra` adds items to the request, or replaces some of the runner's own (`seed`).
        """
        which = self._which(purpose, case)
        began = time.monotonic()
        try:
            parent = self._warm_parent(*which)
            began = time.monotonic()
            limit_s = self._compiling.limit_s(purpose, case)
            request = self._request(purpose, case, extra or {})
            outcome = parent.run(request, limit_s, self._compiling.compile_timeout_s)
        except WarmParentLost as error:
            self._drop_parent(which)
            outcome = failed("killed", str(error))
        outcome["wall_s"] = round(time.monotonic() - began, 6)
        if case is not None:
            self.learn(purpose, case, outcome)
        if case is not None and outcome.get("last_call_checked"):
            self._checked.add(case)
        described = case is not None and purpose == "describe" and outcome["status"] == "ok"
        if case is not None and described and outcome["forkable"] and outcome["import_s"] > _SLOW_IMPORT_S:
            self._slow.add(case.impl)
        return outcome

    def learn(self, purpose: str, case: Case, outcome: Mapping[str, Any]) -> None:
        """Remember what a trial showed about compiling. The trial may belong to an earlier process."""
        self._compiling.learn(purpose, case, outcome)

    def turns(self, case: Case, turn_s: float) -> TurnTrial:
        """Start an interleaved trial of the case, with turns of about `turn_s` seconds (`harness.sweep.turn_trial`).

        Raises TurnTrialFailed if the fork server is lost.
        """
        which = self._which("time", case)
        request = self._request("turns", case, {"turn_s": turn_s})
        try:
            parent = self._warm_parent(*which)
        except WarmParentLost as error:
            self._drop_parent(which)
            raise TurnTrialFailed(failed("killed", str(error))) from error
        return TurnTrial(parent, request, self._compiling.limit_s("time", case))

    def _which(self, purpose: str, case: Case | None) -> tuple[bool, str]:
        """The key of the fork server for these trials."""
        own = case.impl if case is not None and case.impl in self._slow else ""
        return self._compiling.is_due(purpose, case), own.partition(":")[0]

    def _request(self, purpose: str, case: Case | None, extra: dict[str, Any]) -> dict[str, Any]:
        return {
            "purpose": purpose,
            "case": case.as_dict() if case else None,
            "seed": self.seed,
            "trial_s": self.trial_s,
            # A GPU driver maps more host memory than it uses, so a limit would only break it.
            "memory_limit": None if case and case.device == "cuda" else self.memory_limit,
            "sent_at": time.monotonic(),
            "compiles": self._compiling.is_due("time" if purpose == "turns" else purpose, case),
            "own_module": case is not None and case.impl in self._slow,
            "compile_cache": self._compiling.directory(purpose, case),
            "check_last_call": case not in self._checked,
            **extra,
        }

    def _warm_parent(self, compiles: bool, module: str) -> WarmParent:
        self._start(compiles, module)
        parent = self._parents[compiles, module]
        try:
            parent.wait_until_ready()
        except (NoAnswer, NoProcess):  # only this trial is lost
            raise
        except WarmParentLost as error:
            del self._parents[compiles, module]
            raise UsageError("the fork server did not start: can torch be imported?") from error
        return parent

    def _drop_parent(self, which: tuple[bool, str]) -> None:
        if which in self._parents:  # the start may have failed
            self._parents.pop(which).close()
