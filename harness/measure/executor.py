"""Run one trial in a fresh process, forked from a fork server, and turn whatever happens into an outcome.

The module also has the rules for layers that compile, and finds the cases that their layers refuse.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from harness import registry
from harness.background_process import BackgroundProcess
from harness.case import Case
from harness.errors import UsageError
from harness.measure.fork_client import ForkServer, ForkServerLost, NoAnswer, NoProcess, TurnTrial, TurnTrialFailed
from harness.measure.outcome import failed, outcome_of_exit, printable_reason

# Trials of these purposes build no layer, so they compile nothing.
_NO_LAYER = ("machine", "describe", "pulse", "flops", "bandwidth")


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
        self._took_s: dict[Case, float] = {}

    def is_due(self, purpose: str, case: Case | None) -> bool:
        """Whether a trial is known to compile, or to load compiled code."""
        if case is None or purpose in _NO_LAYER:
            return False
        return registry.is_compiled(case.impl) or case.impl in self._found

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


# Share of the free memory that stays free if the user sets no limit.
_FREE_SHARE = 0.1
# A user's module that takes longer to import, in seconds, gets a separate fork server. Starting one takes as long.
_SLOW_IMPORT_S = 0.2
# A cold compilation takes half a minute. A large layer on a slow machine takes some minutes.
COMPILE_TIMEOUT_S = 900.0


class Executor:
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
        self._compiling = CompilePolicy(timeout_s, compile_timeout_s, compile_cache)
        self._checked: set[Case] = set()  # cases that a timed trial has shown to keep no results
        self._slow: set[str] = set()  # layers whose module is imported in a separate fork server
        # The keys: whether the trials compile, and the slow module (empty for all other modules).
        self._parents: dict[tuple[bool, str], ForkServer] = {}

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.drop()

    def drop(self) -> None:
        """End the fork servers. The next trial starts a new one. Knowledge about layers is kept."""
        for which in list(self._parents):
            self._drop_parent(which)

    def twin(self) -> "Executor":
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
            self._parents[compiles, module] = ForkServer(self._path)

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
        except ForkServerLost as error:
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
        """Start an interleaved trial of the case, with turns of about `turn_s` seconds.

        Raises TurnTrialFailed if the fork server is lost.
        """
        which = self._which("time", case)
        request = self._request("turns", case, {"turn_s": turn_s})
        try:
            parent = self._warm_parent(*which)
        except ForkServerLost as error:
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

    def _warm_parent(self, compiles: bool, module: str) -> ForkServer:
        self._start(compiles, module)
        parent = self._parents[compiles, module]
        try:
            parent.wait_until_ready()
        except (NoAnswer, NoProcess):  # only this trial is lost
            raise
        except ForkServerLost as error:
            del self._parents[compiles, module]
            raise UsageError("the fork server did not start: can torch be imported?") from error
        return parent

    def _drop_parent(self, which: tuple[bool, str]) -> None:
        if which in self._parents:  # the start may have failed
            self._parents.pop(which).close()


# Status and reason, as in a row.
UnsupportedCase = tuple[str, str]
# Importing torch takes seconds, and longer on a busy machine.
_START_S = 60.0


def unsupported_cases(cases: Iterable[Case], timeout_s: float) -> dict[Case, UnsupportedCase]:
    """The cases that their layers refuse, with the status and reason of each, before anything is measured.

    A separate process asks the layers, because loading a layer's class imports torch. The process has `timeout_s`
    seconds to answer, beside the time to import torch. If a layer ends the process or hangs, all its cases are refused,
    and another process asks the layers after it. Raises UsageError if no process can be started.
    """
    of_impl: dict[str, list[Case]] = {}
    for case in cases:
        of_impl.setdefault(case.impl, []).append(case)
    left, found = list(of_impl.values()), dict[Case, UnsupportedCase]()
    while left:
        answers, ended = _ask_layers(left, _START_S + timeout_s)
        for group, answered in zip(left, answers, strict=False):
            found |= {case: (one[0], one[1]) for case, one in zip(group, answered, strict=True) if one}
        left = left[len(answers) :]
        if left:
            found |= dict.fromkeys(left.pop(0), ended)
    return found


def _ask_layers(
    groups: Sequence[Sequence[Case]], timeout_s: float
) -> tuple[list[list[UnsupportedCase | None]], UnsupportedCase]:
    """Ask the layers in one process. A group holds the cases of one layer.

    Returns the answers of the first groups, and how the process ended for the first group without an answer. Raises
    UsageError if no process can be started.
    """
    asked = json.dumps([[case.as_dict() for case in group] for group in groups]).encode()
    interpreter = BackgroundProcess(__name__, serve_questions.__name__, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process = interpreter.process
    if process is None:
        raise UsageError("there is no room for a process to ask the layers in which cases they support")
    try:
        said, _ = process.communicate(asked, timeout_s)
        ended = outcome_of_exit(process.returncode)
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
        ended = failed("timeout", f"no result after {timeout_s:g} s")
    finally:
        interpreter.close()
    answers = [json.loads(line) for line in said.splitlines(keepends=True) if line.endswith(b"\n")]
    return answers, (ended["status"], ended["reason"])


def serve_questions() -> None:
    """The program of the process: read groups of cases from stdin and write one line per group to stdout.

    A line holds the status and reason of each case, or null for a case that the layer accepts. Trials refuse cases by
    the same rules. As in a sweep, the small case to verify is judged too. Some problems, such as a missing kernel, show
    only when a layer is built or called. The sweep finds those.
    """
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)  # output of a layer must not mix with the answers
        from harness.trial.layer_protocol import unsupported_in_sweep
        from harness.trial.trial_kinds import outcome_of_exception

        for group in json.load(sys.stdin):
            answered = [
                _answer_for(Case.from_dict(asked), unsupported_in_sweep, outcome_of_exception) for asked in group
            ]
            print(json.dumps(answered), file=out, flush=True)


def _answer_for(
    case: Case, refusal: Callable[[Any, Case], str | None], failure: Callable[[BaseException], dict[str, Any]]
) -> UnsupportedCase | None:
    try:
        layer_class = registry.load_class(case.impl)
        reason = refusal(layer_class, case)
    except Exception as error:
        outcome = failure(error)
        return outcome["status"], printable_reason(outcome["reason"])
    return ("unsupported", printable_reason(reason)) if reason else None
