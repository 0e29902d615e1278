"""One request in, one outcome out, whatever happens between: what a trial's process does."""

import os
import re
import time
import traceback
from dataclasses import asdict
from typing import Any

import torch

from harness.case import Case
from harness.trial import isolate
from harness.trial.backend import backend
from harness.trial.build import Unsupported, build
from harness.trial.clock import sample
from harness.trial.describe import describe, torch_facts
from harness.trial.interference import usage
from harness.trial.layout import litter
from harness.trial.memory import allocator_peak, resident_peak
from harness.trial.pulse import pulse
from harness.trial.verify import WrongResult, verify

_OOM = re.compile(r"can't allocate memory|out of memory|bad_alloc|cannot allocate memory|exceeds? the memory", re.I)
_NO_KERNEL = re.compile(r"no available kernel|no viable backend|not implemented for '", re.I)


def carry_out(request: dict[str, Any]) -> dict[str, Any]:
    """The outcome of `request`: `status`, `reason`, and what was measured. To be called in a process of its own.

    `request` holds `purpose`, `case`, `seed`, `trial_s`, `memory_limit` and `sent_at` (monotonic seconds).
    """
    began = time.monotonic()
    try:
        isolate.enter(request["memory_limit"])
        outcome = {"status": "ok", "reason": None, **_measure(request)}
    except BaseException as error:
        outcome = failure(error)
    outcome["start_s"] = round(began - request["sent_at"], 6)
    return outcome


def failure(error: BaseException) -> dict[str, Any]:
    """The status and one-line reason that an exception stands for."""
    message = " ".join(str(error).split())[:300]
    if isinstance(error, Unsupported):
        return {"status": "unsupported", "reason": message}
    if isinstance(error, WrongResult):
        return {"status": "wrong", "reason": message}
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and _OOM.search(message)
    ):
        return {"status": "oom", "reason": message or "out of memory"}
    if isinstance(error, RuntimeError) and _NO_KERNEL.search(message):
        return {"status": "unsupported", "reason": message}
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return {
        "status": "error",
        "reason": f"{type(error).__name__}: {message}{where}",
        "traceback": "".join(traceback.format_exception(error))[-4000:],
    }


def _measure(request: dict[str, Any]) -> dict[str, Any]:
    purpose = request["purpose"]
    if purpose == "machine":
        return torch_facts()
    case = Case.from_dict(request["case"])
    if purpose == "describe":
        return describe(case)
    if purpose == "verify":
        return verify(case, request["seed"])
    if purpose == "facts":
        return _facts(case, request["seed"])
    if purpose == "pulse":
        torch.set_num_threads(case.threads)
        return {"pulse_s": pulse()}
    if purpose == "time":
        return _time(case, request["seed"], request["trial_s"])
    raise ValueError(f"no such purpose: {purpose}")


def _facts(case: Case, seed: int) -> dict[str, Any]:
    work = build(case, seed)
    work.call()  # pools, caches and code are loaded by the first call, and are not its memory
    work.sync()
    work.forget()
    peak, operations = allocator_peak(work.call, case.device)
    work.forget()
    resident = resident_peak(work.call) if case.device == "cpu" else None
    return {"peak_bytes": peak, "peak_resident_bytes": resident, "backend": backend(operations)}


def _time(case: Case, seed: int, trial_s: float) -> dict[str, Any]:
    began = time.monotonic()
    held = litter()
    work = build(case, seed)
    built = time.monotonic()
    on_cpu = case.device == "cpu"
    pulse_before = pulse() if on_cpu else None
    before = usage()
    samples = sample(work.call, work.sync, trial_s)
    during = usage().since(before)
    # The quieter of the two: the fastest samples are from that end of the trial.
    pulse_s = min(pulse_before, pulse()) if pulse_before is not None else None
    del held
    rounded = {
        name: [float(f"{s:.6g}") for s in value] if isinstance(value, list) else float(f"{value:.6g}")
        for name, value in asdict(samples).items()
    }
    return {**rounded, "build_s": round(built - began, 6), "pulse_s": pulse_s, **during}
