"""Find the cases that their layers refuse, before anything is measured.

A trial uses the same function for this. As in a sweep, the function is called with the small case to verify and with
the case itself. It runs in a separate process, because loading a layer's class imports torch. Some problems, such as a
missing kernel, show only when a layer is built or called. The sweep finds those.
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

# Status and reason, as in a row.
Refusal = tuple[str, str]
# Importing torch takes seconds, and longer on a busy machine.
_START_S = 60.0


def refusals(cases: Iterable[Case], timeout_s: float) -> dict[Case, Refusal]:
    """The cases that cannot be measured, with the status and reason of each.

    A process has `timeout_s` seconds to answer, beside the time to import torch. If a layer ends the process or hangs,
    all its cases are refused, and another process asks the layers after it. Raises UsageError if no process can be
    started.
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
    """Ask the layers in one process. A group holds the cases of one layer.

    Returns the answers of the first groups, and how the process ended for the first group without an answer. Raises
    UsageError if no process can be started.
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
    """The program of the process: read groups of cases from stdin and write one line per group to stdout.

    A line holds the status and reason of each case, or null for a case that the layer accepts.
    """
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)  # output of a layer must not mix with the answers
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
