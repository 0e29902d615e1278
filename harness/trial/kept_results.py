"""Check that a repeated call on the same input repeats all of its work, as a timed call must."""

from collections.abc import Callable
from typing import Any

import torch

from harness.trial.build import Workload
from harness.trial.facts.observer import Observer
from harness.trial.facts.storages import Storages
from harness.trial.relative import WrongResult
from harness.trial.renewal import Renewal
from harness.trial.timing.compiled import compilations

_ROUNDS = 3


def check_operation_counts(work: Workload, seed: int) -> None:
    """Raise WrongResult if calls on an input seen before dispatch fewer operations than calls on a new input.

    The check detects results that a layer kept by the input's address, version or values. It misses work that torch
    does not dispatch, as in numpy or in compiled code. For this work the timed trial compares seconds. The input has
    other values afterwards.
    """
    if compilations() > 0:  # compiled code dispatches no operations, and may not run under an observer
        return
    renewal = Renewal(work.varying)
    work.call()
    renewal.look()
    new, again = [], []
    try:
        for _ in range(_ROUNDS):
            renewal()
            new.append(_operations(work.call, seed))
            again.append(_operations(work.call, seed))
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception:  # the layer ran above, so it is the observer that it cannot run under
        return
    if min(new) > max(again):
        raise WrongResult(
            f"it returns the result of an earlier call: a new input takes {min(new)} operations, "
            f"the same input again {max(again)}"
        )


def _operations(call: Callable[[], Any], seed: int) -> int:
    torch.manual_seed(seed)
    with Observer(Storages(), ()) as observer:
        call()
    return observer.ops
