"""Run one trial in a fresh process, forked from a warm parent, and turn whatever happens into an outcome."""

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

# Left free for the machine when the user sets no limit.
_FREE_SHARE = 0.1
# A module of somebody's own that takes longer to import gets a warm parent of its own, which takes as long to start.
_SLOW_IMPORT_S = 0.2
# A cold compilation takes half a minute; on a slow machine, of a large layer, some minutes.
COMPILE_TIMEOUT_S = 900.0


class Runner:
    """Runs trials on this machine, one at a time. A context manager: its warm parents end with it.

    `seed` draws weights and inputs, `trial_s` is the sampling time of a timed trial, `timeout_s` the
    longest a trial may take and `compile_timeout_s` one that compiles, `memory_limit` in bytes the most that it may
    allocate (None: 90 % of what is free now). What is compiled is kept under `compile_cache`, or where torch keeps it.
    `path` is where trials look for layers, if not where this process does: another `sys.path`.

    Trials that compile have a warm parent of their own: one that has the compiler imported is half as large again, and
    all that are forked from it would pay for that. So do those of somebody's own module that is slow to import, which
    is for them alone: what it changes in torch must not reach the others.
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
        self._checked: set[Case] = set()  # a timed trial has shown that the case keeps no results
        self._slow: set[str] = set()  # impls whose module is imported in a warm parent of its own
        # By whether its trials compile, and whose module they are of: empty where that does not matter.
        self._parents: dict[tuple[bool, str], WarmParent] = {}

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.drop()

    def drop(self) -> None:
        """End the warm parents; the next trial gets a new one. What is known of layers stays known."""
        for which in list(self._parents):
            self._drop_parent(which)

    def twin(self) -> "Runner":
        """The same with warm parents of its own; what either learns of layers, both know."""
        other = copy(self)
        other._parents = {}
        return other

    def start(self, compiles: bool = False, module: str = "") -> None:
        """Begin to start the fork server, without waiting for it: its imports take a second.

        Raises UsageError if the system starts no process.
        """
        try:
            self._start(compiles, module)
        except NoProcess as error:
            raise UsageError(str(error)) from error

    def _start(self, compiles: bool, module: str) -> None:
        if (compiles, module) not in self._parents:
            self._parents[compiles, module] = WarmParent(self._path)

    def run(self, purpose: str, case: Case | None = None, extra: dict[str, Any] | None = None) -> dict[str, Any]:
        """The outcome: `status`, `reason`, `wall_s`, and what the trial measured.

        `extra` are further items of the request, or others than the runner's own (`seed`).
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
        """Take in what a trial of the case, of this process or of an earlier one, has shown of compiling."""
        self._compiling.learn(purpose, case, outcome)

    def turns(self, case: Case, turn_s: float) -> TurnTrial:
        """A trial of the case that takes turns of about `turn_s` seconds, begun: see `harness.sweep.turn_trial`."""
        which = self._which("time", case)
        request = self._request("turns", case, {"turn_s": turn_s})
        try:
            parent = self._warm_parent(*which)
        except WarmParentLost as error:
            self._drop_parent(which)
            raise TurnTrialFailed(failed("killed", str(error))) from error
        return TurnTrial(parent, request, self._compiling.limit_s("time", case))

    def _which(self, purpose: str, case: Case | None) -> tuple[bool, str]:
        """The warm parent of such trials."""
        own = case.impl if case is not None and case.impl in self._slow else ""
        return self._compiling.is_due(purpose, case), own.partition(":")[0]

    def _request(self, purpose: str, case: Case | None, extra: dict[str, Any]) -> dict[str, Any]:
        return {
            "purpose": purpose,
            "case": case.as_dict() if case else None,
            "seed": self.seed,
            "trial_s": self.trial_s,
            # A GPU's driver maps more than it uses: a limit on the host's memory would only break it.
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
        except (NoAnswer, NoProcess):  # either costs one trial
            raise
        except WarmParentLost as error:
            del self._parents[compiles, module]
            raise UsageError("the fork server did not start: can torch be imported?") from error
        return parent

    def _drop_parent(self, which: tuple[bool, str]) -> None:
        if which in self._parents:  # it may not have started
            self._parents.pop(which).close()
