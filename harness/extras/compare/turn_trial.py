"""The kinds of trials that `compare` and `explain` need, and the driver's end of an interleaved trial.

The trial's process reads its kind here too. It may be of an environment with few packages, so this file needs none.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.core.model.sweep_axes import Case
from harness.core.results.row import AT_LEAST_0, COUNT, POSITIVE, TEXT, InvalidRow, TrialKind, none_or, rows_of
from harness.core.run.fork_client import ForkServer, ForkServerLost
from harness.core.run.outcome import TrialOutcome, check_entries, parsed
from harness.core.trial.sandbox import NOTICE, Answer, Request

if TYPE_CHECKING:
    from harness.core.run.executor import Executor

_TRIALS = "harness.extras.compare.trials"
TURNS = TrialKind(
    {"turns": COUNT, "threads_after": none_or(AT_LEAST_0)},
    is_timed=True,
    calls_layer=True,
    handler=f"{_TRIALS}:turns_trial",
    takes=("case", "seed", "turn_s", "trial_s", "ask", "answer"),
)
TRACE = TrialKind(
    {
        "operations": rows_of(TEXT, COUNT, none_or(COUNT), COUNT, rows_of(TEXT, COUNT)),
        "tensors": rows_of(TEXT, TEXT, TEXT, COUNT, COUNT),
        "shares": rows_of(TEXT, AT_LEAST_0),
        "unknown": lambda value: isinstance(value, list) and all(map(TEXT, value)),
    },
    calls_layer=True,
    handler=f"{_TRIALS}:trace_trial",
    takes=("case", "seed", "chrome"),
)
# Lines that an interleaved trial sends before its answer. They are no trials of their own.
LINES = {"warm": {"call_s": POSITIVE}, "turn": {"min_s": POSITIVE, "mean_s": POSITIVE}}
# The number of a place is sent as one byte.
_PLACES = 256


@dataclass(frozen=True)
class Turn:
    """The result of one turn, in seconds per call: the fastest sample and the mean of all samples."""

    min_s: float
    mean_s: float


class TurnTrialFailed(Exception):
    """The trial has ended early. `outcome` holds its status and reason."""

    def __init__(self, outcome: TrialOutcome) -> None:
        super().__init__(f"{outcome.status}: {outcome.reason}")
        self.outcome = outcome


class TurnTrial:
    """The driver's end of an interleaved trial, whose other end is `harness.core.trial.timing.timed_trial`.

    The trial is forked from `server`. It runs only while the driver waits for it, for `timeout_s` seconds at most.
    Between its turns it is stopped, because its idle threads would take CPUs from the other side. `ended` is called
    once it has ended. Raises ForkServerLost if the trial cannot be forked.
    """

    def __init__(
        self, server: ForkServer, request: Request, timeout_s: float, ended: Callable[[], None] = lambda: None
    ) -> None:
        self._server, self._timeout_s, self._ended = server, timeout_s, ended
        theirs, ours = os.pipe()
        self._turns = os.fdopen(ours, "wb", buffering=0)
        try:
            self._answers = os.fdopen(server.begin(request, theirs), "rb", buffering=0)
        except BaseException:
            self._turns.close()
            raise
        finally:
            os.close(theirs)
        self._pid = server.trial

    def wait_until_warm(self) -> float:
        """Wait for the end of the warm-up and return the approximate time of a call, in seconds.

        Raises TurnTrialFailed.
        """
        return float(self._line("warm")["call_s"])

    def turn(self, place: int = 0, anew: bool = False) -> Turn:
        """Let the trial time one turn on the CPUs of `place` (`harness.core.trial.environment`).

        With `anew`, the trial builds the layer again first. Raises TurnTrialFailed.
        """
        with suppress(BrokenPipeError):  # the trial has ended: its last line says why
            self._turns.write(bytes([place % _PLACES, anew]))
        self._server.resume()
        line = self._line("turn")
        return Turn(line["min_s"], line["mean_s"])

    def end(self) -> TrialOutcome:
        """End the turns and return the trial's outcome."""
        if self._turns.closed:
            return TrialOutcome("error", "it has ended before")
        self._turns.close()
        self._server.resume()
        return self._outcome(self._read())

    def abandon(self) -> None:
        """Kill the trial. If it has ended already, do nothing."""
        if not self._answers.closed:
            self._outcome(None)

    def _read(self) -> bytes | None:
        return self._server.read(self._answers.fileno(), self._timeout_s)

    def _line(self, kind: str) -> Answer:
        """The next line, `warm` or `turn`; then pause the trial. Raises TurnTrialFailed if it sends anything else."""
        sent = self._read()
        if sent == NOTICE:  # a user's layer that was not known to compile
            sent = self._read()
        line = (sent or b"").removeprefix(NOTICE)  # notice and line may have arrived together
        with suppress(InvalidRow):
            answer = parsed(line) if line.endswith(b"\n") else {"status": None}
            if "status" not in answer:
                check_entries(answer, LINES[kind])
                self._server.pause()
                return answer
        outcome = self._outcome(sent)  # the line is torn, not valid, or the trial's outcome
        raise TurnTrialFailed(TrialOutcome("error", "it ended before its last turn") if outcome.ok else outcome)

    def _outcome(self, sent: bytes | None) -> TrialOutcome:
        """End the trial, whose last line is `sent`, and return its outcome."""
        self._turns.close()
        with self._answers, ExitStack() as at_end:
            at_end.callback(self._ended)
            if self._server.trial != self._pid:
                return TrialOutcome("killed", "another trial started before this one ended")
            try:
                return self._server.end(sent, self._timeout_s)
            except ForkServerLost as error:
                return TrialOutcome("killed", str(error))


def begin_turns(executor: "Executor", case: Case, turn_s: float) -> TurnTrial:
    """Start an interleaved trial of the case, with turns of about `turn_s` seconds.

    Raises TurnTrialFailed if the fork server is lost. Its end raises CodeChanged, as `Executor.run` does.
    """
    try:
        return executor.begin("turns", case, {"turn_s": turn_s}, TurnTrial)
    except ForkServerLost as error:
        raise TurnTrialFailed(TrialOutcome("killed", str(error))) from error
