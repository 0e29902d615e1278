"""Carry out one request in a trial's process. It gives one outcome, also if something raises."""

import os
import re
import sysconfig
import traceback
from pathlib import Path
from time import monotonic
from typing import Any

import torch

from harness.case import Case
from harness.trial import compiler, isolate, memory_limit
from harness.trial.answer import restore_builtins
from harness.trial.build import Unsupported
from harness.trial.compile_case import take_compile
from harness.trial.compile_failure import TOO_LARGE, compile_failure
from harness.trial.describe import describe, torch_facts
from harness.trial.facts.facts import take_facts
from harness.trial.inside.attention_map import attention_map
from harness.trial.inside.gradient_reach import gradient_reach
from harness.trial.peaks import take_bandwidth, take_flops
from harness.trial.relative import WrongResult
from harness.trial.timing.allocator import set_allocator
from harness.trial.timing.compiled import compilations, compiled_anew
from harness.trial.timing.pulse import pulse
from harness.trial.timing.timed import take_time
from harness.trial.timing.turns import take_turns
from harness.trial.verify import verify

# Directories whose code is never a layer: Python's own, torch's and the harness's. Packages may be installed below
# Python's directory, so `_may_be_a_layers` treats `site-packages` apart.
_PYTHON = sysconfig.get_path("stdlib") + os.sep
_OTHERS = ("<", os.path.dirname(torch.__file__) + os.sep, str(Path(__file__).parents[1]) + os.sep)
_NO_KERNEL = re.compile(r"no available kernel|no viable backend|not implemented for '", re.I)


def carry_out(request: dict[str, Any]) -> dict[str, Any]:
    """The outcome of `request`: `status`, `reason` and the measured values. Call this in a separate process.

    `request` holds `purpose`, `case`, `seed`, `trial_s`, `memory_limit` and `sent_at` (monotonic seconds). Some
    purposes need further keys.
    """
    began = monotonic()
    # Reading the machine's facts needs a CUDA context, which is larger than some limits for layers.
    limit = None if request["purpose"] == "machine" else request["memory_limit"]
    replaced = None
    try:
        isolate.enter(limit, request.get("temporary"))
        try:
            outcome = {"status": "ok", "reason": None, **_measure(request)}
        finally:  # before the lookup of `BaseException`, which is also a built-in
            replaced = restore_builtins()
    except BaseException as error:
        lifted = memory_limit.lift()
        outcome = memory_limit.explain(failure(error), limit, lifted)
    memory_limit.lift()
    if replaced is not None:
        cause = f" ({outcome['reason']})" if outcome["status"] != "ok" else ""
        outcome = {"status": "error", "reason": replaced + cause}
    outcome["start_s"] = round(began - request["sent_at"], 6)
    return outcome


def failure(error: BaseException) -> dict[str, Any]:
    """The status and one-line reason for an exception. Methods that its class defines cannot make this raise."""
    try:
        return _failure(error)
    except BaseException:  # `__str__` of a layer's exception may raise anything, or return no text
        name = type.__dict__["__name__"].__get__(type(error))  # its metaclass may define another `__name__`
        reason = f"{name}: its message cannot be read{_place(error)}"
        return {"status": "error", "reason": reason}


def _failure(error: BaseException) -> dict[str, Any]:
    message = " ".join(str(error).split())[:300]
    of_compiling = compile_failure(error)
    if of_compiling is not None:
        return of_compiling | {"traceback": _traceback(error)}
    if isinstance(error, Unsupported):
        return {"status": "unsupported", "reason": message}
    if isinstance(error, WrongResult):
        return {"status": "wrong", "reason": message}
    if memory_limit.is_out_of_memory(error):
        return {"status": "oom", "reason": message or "out of memory"}
    if isinstance(error, RuntimeError) and _NO_KERNEL.search(message):
        return {"status": "unsupported", "reason": message}
    if TOO_LARGE.search(message):  # raised by Triton, or by torch around Triton's exception
        return {"status": "unsupported", "reason": message}
    return {
        "status": "error",
        "reason": f"{type(error).__name__}: {message}{_place(error)}",
        "traceback": _traceback(error),
    }


def _place(error: BaseException) -> str:
    """The file and line of the layer's innermost frame in the traceback; empty if no layer's code took part."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((one for one in reversed(frames) if _may_be_a_layers(one.filename)), None)
    return f" ({os.path.basename(frame.filename)}:{frame.lineno})" if frame else ""


def _may_be_a_layers(file: str) -> bool:
    return not file.startswith(_OTHERS) and (not file.startswith(_PYTHON) or "site-packages" in file)


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-4000:]


def _measure(request: dict[str, Any]) -> dict[str, Any]:
    purpose = request["purpose"]
    if purpose == "machine":
        return torch_facts()
    case = Case.from_dict(request["case"])
    if purpose == "describe":
        return describe(case)
    set_allocator(case.allocator)
    if purpose in ("verify", "compile", "facts", "time", "turns"):
        return _measure_layer(request, case)
    if purpose == "pulse":
        torch.set_num_threads(case.threads)
        return {"pulse_s": pulse()}
    if purpose == "flops":
        return take_flops(case, request["trial_s"], request["memory_limit"])
    if purpose == "bandwidth":
        return take_bandwidth(case, request["trial_s"], request["memory_limit"])
    if purpose == "attention_map":
        return attention_map(case, request["seed"], request["words"])
    if purpose == "gradient_reach":
        return gradient_reach(case, request["seed"])
    raise ValueError(f"no such purpose: {purpose}")


def _measure_layer(request: dict[str, Any], case: Case) -> dict[str, Any]:
    """The outcome of a trial that builds a layer.

    After a verification, `compiled` is whether anything was compiled for it. If anything was compiled, `compiled_anew`
    is the number of graphs that were compiled here, because the copy on disk was missing or unusable.
    """
    purpose, seed = request["purpose"], request["seed"]
    compiler.keep_in(request.get("compile_cache"))
    compiler.prepare_for(case)
    if purpose == "verify":
        outcome = verify(case, seed)
        outcome["compiled"] = compilations() > 0
    elif purpose == "compile":
        outcome = take_compile(case, seed)
    elif purpose == "facts":
        outcome = take_facts(case, seed)
    elif purpose == "turns":
        outcome = take_turns(case, seed, request["turn_s"], request["trial_s"], request["ask"], request["answer"])
    else:
        outcome = take_time(case, seed, request["trial_s"], request.get("check_last_call", True))
    compiler.check_at_work(case)
    if compilations() > 0:
        outcome["compiled_anew"] = compiled_anew()
    return outcome
