"""Which cases their layers refuse, told before anything is measured.

By the very function that a trial asks, of the small case that is verified and of the case itself, as a sweep comes to
them: in a process of its own, as a layer's class is not had without torch. What only building or calling a layer shows,
as a kernel that is not there, is left to the sweep.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from harness import catalog
from harness.case import Case
from harness.errors import UsageError
from harness.interpreter import Interpreter
from harness.sweep.outcome import death, failed, plain

# Status, and reason, as in a row.
Refusal = tuple[str, str]
# Importing torch takes seconds, and on a busy machine more of them.
_START_S = 60.0


def refusals(cases: Iterable[Case], timeout_s: float) -> dict[Case, Refusal]:
    """How those of the cases end that cannot be. All layers together are given `timeout_s` to say so.

    One that does not come to say it, as it ends its process or hangs, has all its cases among them; those after it are
    asked in another process. Raises UsageError where there is none to be had.
    """
    of_impl: dict[str, list[Case]] = {}
    for case in cases:
        of_impl.setdefault(case.impl, []).append(case)
    left, found = list(of_impl.values()), dict[Case, Refusal]()
    while left:
        answers, ended = _ask(left, _START_S + timeout_s)
        for group, answered in zip(left, answers, strict=False):
            found |= {case: (one[0], one[1]) for case, one in zip(group, answered, strict=True) if one}
        left = left[len(answers) :]
        if left:
            found |= dict.fromkeys(left.pop(0), ended)
    return found


def _ask(groups: Sequence[Sequence[Case]], timeout_s: float) -> tuple[list[list[Refusal | None]], Refusal]:
    """What the layers of the first groups say (a group is the cases of one), and how the first that does not ended.

    Raises UsageError where there is no process to ask them in.
    """
    asked = json.dumps([[case.as_dict() for case in group] for group in groups]).encode()
    interpreter = Interpreter(__name__, answer.__name__, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process = interpreter.process
    if process is None:
        raise UsageError("there is no room for a process to ask the layers in which cases they support")
    try:
        said, _ = process.communicate(asked, timeout_s)
        ended = death(process.returncode)
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
        ended = failed("timeout", f"no result after {timeout_s:g} s")
    finally:
        interpreter.close()
    answers = [json.loads(line) for line in said.splitlines(keepends=True) if line.endswith(b"\n")]
    return answers, (ended["status"], ended["reason"])


def answer() -> None:
    """What the process does: read groups of cases from standard input, and write a line a group to standard output,
    how each case ends, or null.
    """
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)  # what a layer prints is no answer
        from harness.trial.contract import refusal_in_a_sweep
        from harness.trial.run import failure

        for group in json.load(sys.stdin):
            answered = [_of(Case.from_dict(asked), refusal_in_a_sweep, failure) for asked in group]
            print(json.dumps(answered), file=out, flush=True)


def _of(
    case: Case, refusal: Callable[[Any, Case], str | None], failure: Callable[[BaseException], dict[str, Any]]
) -> Refusal | None:
    try:
        layer_class = catalog.load_class(case.impl)
        reason = refusal(layer_class, case)
    except Exception as error:
        outcome = failure(error)
        return outcome["status"], plain(outcome["reason"])
    return ("unsupported", plain(reason)) if reason else None
