"""Run one trial in a fresh process, forked from a fork server, and turn whatever happens into an outcome."""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TypeVar

import psutil

from harness.core.config.machine import keep_gpus_initialised
from harness.core.layers import layer_files, layer_lookup
from harness.core.model import gpus
from harness.core.model.background_process import interpreter_of
from harness.core.model.errors import CodeChanged, UsageError
from harness.core.model.file_io import memory_left
from harness.core.model.sweep_axes import OWN_ENVIRONMENT, Case, device_kind
from harness.core.results.row import kind_of
from harness.core.trial.sandbox import Request

from .fork_client import OF_DRIVER, ForkServer, ForkServerLost, NoAnswer, NoProcess, Runtime
from .outcome import TrialOutcome, printable_reason

# Share of the free memory that stays free if the user sets no limit.
_FREE_SHARE = 0.1
# A user's module that takes longer to import, in seconds, gets a separate fork server. Starting one takes as long.
_SLOW_IMPORT_S = 0.2
# A cold compilation takes half a minute. A large layer on a slow machine takes some minutes.
COMPILE_TIMEOUT_S = 900.0
_Trial = TypeVar("_Trial")
# The key of a fork server.
_Which = tuple[str, bool, str]
# A socket passes about 36 KiB with descriptors at once. A case takes some 300 bytes without its layer.
_CASES_PER_REQUEST = 50


class CompilePolicy:
    """Which layers compile, the time limits of trials, and the directories where compiled code is kept.

    The registry says which built-in layers compile. A user's own layer is known to compile once a trial reports it, at
    the latest the first verification.

    A trial may take `timeout_s` seconds, and one that compiles `compile_timeout_s`. Compiled code is kept under the
    directory `cache`, which is made on first use. None stands for torch's own directory.
    """

    def __init__(self, timeout_s: float, compile_timeout_s: float, cache: Path | None) -> None:
        self.timeout_s, self.compile_timeout_s = timeout_s, compile_timeout_s
        self._cache = cache.absolute() if cache is not None else None
        self._found: set[str] = set()
        self._compile_s: dict[Case, float] = {}

    def is_due(self, purpose: str, case: Case | None) -> bool:
        """Whether a trial is known to compile, or to load compiled code."""
        if case is None or "seed" not in kind_of(purpose).takes:
            return False
        return layer_lookup.is_compiled(case.impl) or case.impl in self._found

    def limit_s(self, purpose: str, case: Case | None) -> float:
        """The time limit of a trial, in seconds.

        A timed trial of a compiled layer loads its code and at worst compiles it again. It also checks its last call
        with a second layer. The compile time of the case is therefore added twice.
        """
        if not self.is_due(purpose, case):
            return self.timeout_s
        if kind_of(purpose).is_timed and case is not None:
            return self.timeout_s + 2 * self._compile_s.get(case, 0.0)
        return max(self.timeout_s, self.compile_timeout_s)

    def directory(self, purpose: str, case: Case | None) -> str | None:
        """The directory in which the case's trials keep compiled code; None for torch's own.

        Verifications have a separate directory, even for the same case. The trial that measures the compile time must
        find no compiled code.
        """
        if self._cache is None or case is None:
            return None
        name = f"verify {case.key}" if purpose == "verify" else case.key
        return str(self._cache / hashlib.sha256(name.encode()).hexdigest()[:16])

    def learn(self, purpose: str, case: Case, outcome: TrialOutcome) -> None:
        """Remember from a trial's outcome whether the layer compiles, and how long that took.

        The trial may belong to an earlier process.
        """
        if outcome.values.get("compiled"):
            self._found.add(case.impl)
        if purpose == "compile":
            self._compile_s[case] = outcome.values.get("compile_s") or 0.0


class Executor:
    """Runs trials on this machine, one at a time. A context manager: its fork servers end with it.

    Weights and inputs are drawn from `seed`. `trial_s` is the sampling time of a timed trial. A trial may take
    `timeout_s`, and one that compiles `compile_timeout_s`. All three are in seconds. A trial may allocate
    `memory_limit` bytes (None: 90 % of what is free now, in this control group too). Compiled code is kept under
    `compile_cache`, or in torch's own directory. Trials run in `runtime`. A case in another environment has that
    environment's interpreter instead. The first of `environments` runs the trials without a case.

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
        memory_limit: int | None = None,
        compile_timeout_s: float = COMPILE_TIMEOUT_S,
        compile_cache: Path | None = None,
        runtime: Runtime = OF_DRIVER,
        environments: Sequence[str] = (OWN_ENVIRONMENT,),
    ) -> None:
        self.seed = seed
        self.environments = environments
        self.trial_s = trial_s
        self.runtime = runtime
        free = psutil.virtual_memory().available
        self.memory_limit = memory_limit or int((1 - _FREE_SHARE) * min(free, memory_left()))
        self.compiling = CompilePolicy(timeout_s, compile_timeout_s, compile_cache)
        self._checked: set[Case] = set()  # cases that a timed trial has shown to keep no results
        self._slow_imports: set[str] = set()  # layers whose module is imported in a separate fork server
        self.code: dict[str, layer_files.Digests] = {}  # the layers' files, none of which may change from now on
        # The keys: the environment, whether the trials compile, and the slow module (empty for all other modules).
        self._servers: dict[_Which, ForkServer] = {}
        self._path: Sequence[str] | None = None

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *raised: object) -> None:
        self.drop()

    def drop(self) -> None:
        """End the fork servers. The next trial starts a new one. Knowledge about layers is kept."""
        for which in list(self._servers):
            self._drop_server(which)

    def twin(self, python: str | None = None) -> "Executor":
        """A copy with separate fork servers. Both executors share their knowledge about layers.

        `python` is the copy's interpreter, if not the same.
        """
        other = copy(self)
        other._servers = {}
        other.runtime = replace(self.runtime, python=python or self.runtime.python)
        return other

    def within(self, environment: str) -> "Executor":
        """A copy that shares the fork servers. Its trials without a case run in that environment."""
        other = copy(self)
        other.environments = (environment,)
        return other

    def searching(self, path: Sequence[str], compile_cache: Path) -> "Executor":
        """A copy that shares the fork servers. Its trials search `path` for their layers.

        The copy shares no knowledge about layers, since another path has other layers. Its trials import their layer's
        module themselves, even if it is slow to import.
        """
        other, limits = copy(self), self.compiling
        other.compiling = CompilePolicy(limits.timeout_s, limits.compile_timeout_s, compile_cache)
        other._path = path
        other._checked, other._slow_imports, other.code = set(), set(), {}
        return other

    def start(self) -> None:
        """Start a fork server in each environment without waiting for it: its imports take a second.

        Raises UsageError if the system cannot start a process.
        """
        try:
            for environment in self.environments:
                self._server((environment, False, ""))
        except NoProcess as error:
            raise UsageError(str(error)) from error

    def ask(self, purpose: str, case: Case | None = None, extra: Request | None = None) -> TrialOutcome:
        """Run a trial, and once more if it was killed, which may be by chance. Not for trials that are timed."""
        outcome = self.run(purpose, case, extra)
        return self.run(purpose, case, extra) if outcome.status == "killed" else outcome

    def run(self, purpose: str, case: Case | None = None, extra: Request | None = None) -> TrialOutcome:
        """Run a trial and return its outcome.

        `extra` adds items to the request, or replaces some of the executor's own (`seed`). Raises CodeChanged if a file
        of the layer was changed since `code` was noted: the trial may have run either.
        """
        which = self._which(purpose, case)
        device = "cpu" if case is None else case.device
        self._prepare_device(device)
        began = monotonic()
        try:
            server = self._warm_server(which)
            limit_s = self.compiling.limit_s(purpose, case)
            request = self._request(purpose, case, which, extra or {})
            with gpus.one_trial_on(device, self._variables):
                began = monotonic()
                outcome = server.run(request, limit_s, self.compiling.compile_timeout_s)
        except ForkServerLost as error:
            self._drop_server(which)
            outcome = TrialOutcome("killed", str(error))
        outcome = replace(outcome, wall_s=round(monotonic() - began, 6))
        if purpose == "machine" and outcome.ok:
            seen = outcome.values.get("devices", {})
            for kind in gpus.NUMBERED:
                gpus.learn(kind, seen.get(kind, {}).get("uuids", ()), self._variables)
        if case is not None:
            self._check_code(case)
            self.compiling.learn(purpose, case, outcome)
            if outcome.values.get("last_call_checked"):
                self._checked.add(case)
            is_forkable = purpose == "describe" and outcome.values.get("forkable") and self._path is None
            if is_forkable and outcome.values["import_s"] > _SLOW_IMPORT_S:
                self._slow_imports.add(case.impl)
        return outcome

    def begin(self, purpose: str, case: Case, extra: Request, start: Callable[..., _Trial]) -> _Trial:
        """Start a trial that the caller ends, and return what `start(server, request, limit_s, ended)` returns.

        `start` forks the trial, and calls `ended` once it has ended. That raises CodeChanged, as `run` does. Raises
        ForkServerLost.
        """
        which = self._which(purpose, case)
        request = self._request(purpose, case, which, extra)
        self._prepare_device(case.device)
        at_end = ExitStack()
        at_end.callback(self._check_code, case)
        at_end.enter_context(gpus.one_trial_on(case.device, self._variables))
        try:
            server, limit_s = self._warm_server(which), self.compiling.limit_s(purpose, case)
            return start(server, request, limit_s, at_end.close)
        except BaseException as error:
            at_end.close()
            if isinstance(error, ForkServerLost):
                self._drop_server(which)
            raise

    def _check_code(self, case: Case) -> None:
        changed = layer_files.files_unlike(self.code.get(case.impl, {}))
        if changed:
            names = layer_files.shown_digests(dict.fromkeys(changed, ""), Path.cwd())
            raise CodeChanged(f"{', '.join(names)} changed while {case.impl} was measured")

    def _prepare_device(self, device: str) -> None:
        """Keep a GPU initialised from now on, and know which one it is."""
        if device_kind(device) == "cuda":
            keep_gpus_initialised()
        if not gpus.is_learned(device):
            self.ask("machine")

    @property
    def _variables(self) -> Mapping[str, str]:
        """The environment of trials."""
        return {**os.environ, **self.runtime.variables}

    def refused(self, cases: Iterable[Case]) -> dict[Case, tuple[str, str]]:
        """The cases that their layers refuse, with the status and reason of each, before anything is measured.

        The layers' rules decide, for the small case to verify too. Some problems, such as a missing kernel, show only
        when a layer is built or called: a sweep finds these. If a layer ends its process or hangs, all its further
        cases are refused.
        """
        refusals, of_layer = dict[Case, tuple[str, str]](), dict[tuple[str, str], list[Case]]()
        for case in cases:
            of_layer.setdefault((case.impl, case.env), []).append(case)
        for group in of_layer.values():
            for start in range(0, len(group), _CASES_PER_REQUEST):
                part = group[start : start + _CASES_PER_REQUEST]
                outcome = self.ask("refusals", part[0], {"cases": [{**case.as_dict(), "impl": ""} for case in part]})
                if not outcome.ok:
                    refusals |= dict.fromkeys(group[start:], (outcome.status, str(outcome.reason)))
                    break
                for case, refusal in zip(part, outcome.values["refusals"], strict=True):
                    if refusal is not None:
                        refusals[case] = refusal[0], printable_reason(refusal[1])
        return refusals

    def _which(self, purpose: str, case: Case | None) -> _Which:
        """The key of the fork server for these trials."""
        slow_layer = case.impl if case is not None and case.impl in self._slow_imports else ""
        environment = self.environments[0] if case is None else case.env
        return environment, self.compiling.is_due(purpose, case), slow_layer.partition(":")[0]

    def _request(self, purpose: str, case: Case | None, which: _Which, extra: Request) -> Request:
        _, compiles, slow_module = which
        return {
            "purpose": purpose,
            "case": case.as_dict() if case else None,
            "seed": self.seed,
            "trial_s": self.trial_s,
            # A GPU driver maps more host memory than it uses, so a limit would only break it.
            "memory_limit": None if case and case.device != "cpu" else self.memory_limit,
            "compiles": compiles,
            "own_module": bool(slow_module),
            "compile_cache": self.compiling.directory(purpose, case),
            "check_last_call": case not in self._checked,
            "path": self._path,
            **extra,
        }

    def _runtime(self, environment: str) -> Runtime:
        if environment == OWN_ENVIRONMENT:
            return self.runtime
        return replace(self.runtime, python=interpreter_of(environment))

    def _server(self, which: _Which) -> ForkServer:
        """The fork server with this key, started if necessary."""
        if which not in self._servers:
            self._servers[which] = ForkServer(self._runtime(which[0]))
        return self._servers[which]

    def _warm_server(self, which: _Which) -> ForkServer:
        """The fork server with this key, once it accepts requests."""
        server = self._server(which)
        try:
            server.wait_until_ready()
        except (NoAnswer, NoProcess):  # only this trial is lost
            raise
        except ForkServerLost as error:
            del self._servers[which]
            python = self._runtime(which[0]).python
            by = f" by {python}" if python else ""
            raise UsageError(f"the fork server did not start: can torch be imported{by}?") from error
        return server

    def _drop_server(self, which: _Which) -> None:
        if which in self._servers:  # the start may have failed
            self._servers.pop(which).close()


# The longest time that a command waits for a layer, in seconds.
_SHORT_TIMEOUT_S = 60.0


def short_executor() -> Executor:
    """An executor that examines layers in separate processes, so that this process needs no torch."""
    return Executor(seed=0, trial_s=1.0, timeout_s=_SHORT_TIMEOUT_S)
