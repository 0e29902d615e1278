"""Carry out one request in the process of a trial, and return one outcome, even if something raises."""

import contextlib
import os
import re
import sys
import sysconfig
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import torch

from harness import checkout, claims, registry
from harness.case import Case
from harness.errors import UsageError
from harness.trial import compilation, sandbox
from harness.trial.attention_and_gradients import attention_map, gradient_reach
from harness.trial.compilation import TOO_LARGE, compilations, compile_failure, compiled_anew, measure_compilation
from harness.trial.environment import probe_s, set_allocator
from harness.trial.messages import restore_builtins
from harness.trial.metrics.collect import collect_metrics
from harness.trial.peak_rates import take_bandwidth, take_flops
from harness.trial.timing.timed_trial import measure_time, take_turns
from harness.trial.tolerance import WrongResult
from harness.trial.verify import verify
from harness.trial.workload import Unsupported, takes_heads

_CUDA_FILE = "/dev/nvidia-uvm"


def timed_import(impl: str) -> tuple[type, float, bool]:
    """Import the layer's class. Return `(class, seconds, whether a process can be forked after the import)`.

    A process cannot be forked safely after an import that leaves threads, processes or a CUDA context. Each trial then
    imports the module itself.

    Raises what the import raises.
    """
    began = perf_counter()
    layer_class = registry.load_class(impl)
    return layer_class, perf_counter() - began, not _left_running()


def _left_running() -> bool:
    tasks = Path("/proc/self/task")
    if not tasks.exists():  # without Linux's /proc nothing can be observed: assume the worst
        return True
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    threads = max(len(list(tasks.iterdir())), threading.active_count())
    return threads > 1 or bool(children.strip()) or torch.cuda.is_initialized() or is_on_gpu()


def is_on_gpu(open_files: Path = Path("/proc/self/fd")) -> bool:
    """Whether this process uses CUDA's driver, which then has the file `_CUDA_FILE` open.

    The caller may be Triton, CuPy, or torch when it counts GPUs. NVML, which survives a fork, does not open the file.
    """
    for one in open_files.iterdir():
        with contextlib.suppress(OSError):  # the file was closed in the meantime
            if os.readlink(one) == _CUDA_FILE:
                return True
    return False


def preload_module(impl: str) -> None:
    """Import a user's module once for all trials of its layers, in the process that trials are forked from.

    A package may take seconds to import. The trial that describes the layer finds out whether sharing is safe. Ignore
    exceptions: the trial's own import raises them again, and the trial reports them.
    """
    with _silence(), contextlib.suppress(Exception):
        registry.load_class(impl)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Discard what the import prints, because the screen belongs to the sweep."""
    kept = os.dup(1), os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        for descriptor in (1, 2):
            os.dup2(null, descriptor)
        yield
    finally:
        for descriptor, before in zip((1, 2), kept, strict=True):
            os.dup2(before, descriptor)
            os.close(before)
        os.close(null)


def describe_layer(case: Case) -> dict[str, Any]:
    """Return the description of the case's layer, made once before the first trial, without measuring a call.

    - `family`, `has_heads`, `compiled`: from the class's attributes. Without the attribute, `has_heads` follows from
      the constructor.
    - `import_s`: seconds that importing the layer's module takes.
    - `forkable`: whether trials may be forked after the import.
    - `claims_refused`: what is wrong with the layer's claims, or None.
    - `file`: the file of the module, or None if it has none.
    - `files`: the layer's code, as returned by `registry.files_of_class`.
    """
    layer_class, import_s, forkable = timed_import(case.impl)
    return {
        "import_s": import_s,
        "forkable": forkable,
        "family": str(getattr(layer_class, "family", "own")),
        "has_heads": bool(getattr(layer_class, "has_heads", takes_heads(layer_class))),
        "compiled": bool(getattr(layer_class, "compiled", False)),
        "claims_refused": _refused_claims(layer_class),
        "file": getattr(sys.modules.get(layer_class.__module__), "__file__", None),
        "files": registry.files_of_class(layer_class),
    }


def _refused_claims(layer_class: type) -> str | None:
    """Return what is wrong with the layer's claims, or None.

    This is reported before anything is measured, because an invalid claim would cost a trial all its facts.
    """
    try:
        claims.claims_of_class(layer_class)
    except UsageError as error:
        return str(error)
    return None


def torch_facts() -> dict[str, Any]:
    """Return torch's version, build and thread settings, the GPU if any, and the location of this harness.

    They are collected once before the first trial.
    """
    gpu = torch.cuda.is_available()
    return {
        "harness": str(checkout.PLACE),
        "version": torch.__version__,
        "git": torch.version.git_version,
        "cuda": torch.version.cuda,
        "gpu": torch.cuda.get_device_name() if gpu else None,
        "gpu_memory_bytes": torch.cuda.get_device_properties(0).total_memory if gpu else None,
        "default_threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "build": [line.strip(" -") for line in torch.__config__.show().splitlines() if line.strip()],
        "parallel": [line.strip() for line in torch.__config__.parallel_info().splitlines() if line.strip()],
    }


# Directories whose code is never a layer: Python's own, torch's and the harness's. Packages may be installed below
# Python's directory, so `_may_be_a_layers` treats `site-packages` apart.
_PYTHON = sysconfig.get_path("stdlib") + os.sep
_NOT_A_LAYER = ("<", os.path.dirname(torch.__file__) + os.sep, str(Path(__file__).parents[1]) + os.sep)
_NO_KERNEL = re.compile(r"no available kernel|no viable backend|not implemented for '", re.I)


def run_trial(request: dict[str, Any]) -> dict[str, Any]:
    """The outcome of `request`: `status`, `reason` and the measured values. Call this in a separate process.

    `request` holds `purpose`, `case`, `seed`, `trial_s`, `memory_limit` and `sent_at` (monotonic seconds). Some
    purposes need further keys.
    """
    began = monotonic()
    # Reading the machine's facts needs a CUDA context, which is larger than some limits for layers.
    limit = None if request["purpose"] == "machine" else request["memory_limit"]
    replaced = None
    try:
        sandbox.enter_sandbox(limit, request.get("temporary"))
        try:
            outcome = {"status": "ok", "reason": None, **_measure(request)}
        finally:  # before the lookup of `BaseException`, which is also a built-in
            replaced = restore_builtins()
    except BaseException as error:
        lifted = sandbox.lift_limit()
        outcome = sandbox.explain_failure(outcome_of_exception(error), limit, lifted)
    sandbox.lift_limit()
    if replaced is not None:
        cause = f" ({outcome['reason']})" if outcome["status"] != "ok" else ""
        outcome = {"status": "error", "reason": replaced + cause}
    outcome["start_s"] = round(began - request["sent_at"], 6)
    return outcome


def outcome_of_exception(error: BaseException) -> dict[str, Any]:
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
        return {"status": "incorrect", "reason": message}
    if sandbox.is_out_of_memory(error):
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
    return not file.startswith(_NOT_A_LAYER) and (not file.startswith(_PYTHON) or "site-packages" in file)


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-4000:]


def _measure(request: dict[str, Any]) -> dict[str, Any]:
    purpose = request["purpose"]
    if purpose == "machine":
        return torch_facts()
    case = Case.from_dict(request["case"])
    if purpose == "describe":
        return describe_layer(case)
    set_allocator(case.allocator)
    if purpose in ("verify", "compile", "facts", "time", "turns"):
        return _measure_layer(request, case)
    if purpose == "pulse":
        torch.set_num_threads(case.threads)
        return {"probe_s": probe_s()}
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
    compilation.keep_cache_in(request.get("compile_cache"))
    compilation.prepare_compiler(case)
    if purpose == "verify":
        outcome = verify(case, seed)
        outcome["compiled"] = compilations() > 0
    elif purpose == "compile":
        outcome = measure_compilation(case, seed)
    elif purpose == "facts":
        outcome = collect_metrics(case, seed)
    elif purpose == "turns":
        outcome = take_turns(case, seed, request["turn_s"], request["trial_s"], request["ask"], request["answer"])
    else:
        outcome = measure_time(case, seed, request["trial_s"], request.get("check_last_call", True))
    compilation.check_compiled(case)
    if compilations() > 0:
        outcome["compiled_anew"] = compiled_anew()
    return outcome
