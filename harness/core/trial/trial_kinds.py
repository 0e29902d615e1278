"""Carry out one request in the process of a trial, and return one outcome, even if something raises."""

import contextlib
import os
import platform
import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata

import torch

from harness.core.layers import layer_lookup
from harness.core.model import background_process, gpus
from harness.core.model.extra_tables import referenced
from harness.core.model.sweep_axes import Case, device_kind
from harness.core.results.row import kind_of

from . import compilation, environment, layer_protocol, nvml, result_checks, sandbox, workload
from .accuracy import measure_accuracy
from .counts.collect import collect_metrics
from .device_kinds import GPU_KINDS
from .sandbox import Answer, Request
from .timing.timed_trial import missing_parts


def refusals(case: Case, cases: Sequence[Answer]) -> Answer:
    """Return `refusals`: the status and reason for each of `cases` that the layer of `case` refuses, else None.

    A case is refused for what a sweep runs: the case itself, and the small case verified before it. A class that
    cannot be built or called as a layer is an `error` in every case.
    """
    layer_class = layer_lookup.load_class(case.impl)
    there = (replace(Case.from_dict(axes), impl=case.impl, device=device_kind(axes["device"])) for axes in cases)
    return {"refusals": [_refusal(layer_class, one) for one in there]}


def _refusal(layer_class: type, case: Case) -> tuple[str, str] | None:
    try:
        layer_protocol.check_signature(layer_class, layer_lookup.build_options(case.impl))
        verified = layer_protocol.case_to_verify(layer_class, case.small())
        reason = layer_protocol.unsupported_reason(layer_class, verified)
        reason = reason or layer_protocol.unsupported_reason(layer_class, case)
    except Exception as error:
        outcome = outcome_of_exception(error)
        return outcome["status"], outcome["reason"]
    return ("unsupported", reason) if reason else None


# The distributions that hold triton.
_TRITON = ("triton", "pytorch-triton", "pytorch-triton-rocm")


def describe_torch(modules: Sequence[str] = ()) -> Answer:
    """Return torch's version, build and thread settings, the GPU if any, and the location of this harness.

    `packages` has the versions of the distributions that hold the top-level `modules`, where these are known.
    """
    seen = {kind: gpu.describe() for kind, gpu in GPU_KINDS.items()}
    kind = next((kind for kind in seen if seen[kind]["count"]), None)
    cudnn = None
    with contextlib.suppress(RuntimeError):  # another version than torch was built with
        cudnn = torch.backends.cudnn.version()
    return {
        "harness": str(background_process.PLACE),
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "rocm": torch.version.hip,
        "cudnn": cudnn,
        "triton": next(filter(None, map(background_process.version_of, _TRITON)), None),
        "python": platform.python_version(),
        "packages": _distributions(modules),
        "gpu": seen[kind]["names"][0] if kind else None,
        "gpu_memory_bytes": GPU_KINDS[kind].total_memory() if kind else None,
        "gpus": seen[kind]["names"] if kind else [],
        "devices": seen,
        **({"gpu_states": _gpu_states(seen["cuda"])} if kind == "cuda" else {}),
        "default_threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "build": [line.strip(" -") for line in torch.__config__.show().splitlines() if line.strip()],
    }


def _gpu_states(seen: Answer) -> dict[str, Answer]:
    """The state of each NVIDIA GPU that torch sees, by UUID. `index` is its number among them."""
    states = dict[str, Answer]()
    if torch.version.hip is not None:
        return states
    for index, (name, uuid) in enumerate(zip(seen["names"], seen["uuids"], strict=True)):
        state = nvml.gpu_state(nvml.addresses(torch.cuda.get_device_properties(index)))
        states[uuid or str(index)] = {"index": index, "name": name, **state, "borrowed": gpus.borrowed_because()}
    return states


def _distributions(modules: Sequence[str]) -> dict[str, str]:
    """The versions of the distributions that hold these top-level modules, by distribution."""
    if not modules:
        return {}
    holders = metadata.packages_distributions()
    versions = {}
    for module in modules:
        for name in holders.get(module, [module]):  # an editable install does not list its modules
            if version := background_process.version_of(name):
                versions[name] = version
    return versions


_NO_KERNEL = re.compile(
    r"no available kernel|no viable backend|not implemented for '|could not run 'aten::\S+ with arguments from", re.I
)


def run_trial(request: Request) -> Answer:
    """The outcome of `request`: `status`, `reason` and the measured values. Call this in a separate process.

    `request` holds `purpose`, `case`, `seed`, `trial_s` and `memory_limit`. Some purposes need further keys.
    """
    # Reading the machine's facts needs a CUDA context, which is larger than some limits for layers.
    limit = None if request["purpose"] == "machine" else request["memory_limit"]
    try:
        sandbox.enter_sandbox(limit, request.get("temporary"))
        outcome = {"status": "ok", "reason": None, **_measure(request)}
    except BaseException as error:
        lifted = sandbox.lift_limit()
        outcome = sandbox.explain_failure(outcome_of_exception(error), limit, lifted)
    sandbox.lift_limit()
    return outcome


def outcome_of_exception(error: BaseException) -> Answer:
    """The status and one-line reason for an exception. Methods that its class defines cannot make this raise."""
    try:
        status, reason = _failure(error)
        outcome = {"status": status, "reason": reason}
        if status == "error":
            outcome["traceback"] = "".join(traceback.format_exception(error))[-4000:]
        return outcome
    except BaseException:  # `__str__` of a layer's exception may raise anything, or return no text
        return {"status": "error", "reason": f"{type(error).__name__}: its message cannot be read{_place(error)}"}


# What torch says of a layer that cannot train as it is written, and what to write.
_IN_OTHER_WORDS = {
    r"use_reentrant=True.*incompatible with \.grad\(\)": (
        "mode=backward needs checkpoint(…, use_reentrant=False): write it in the layer, or give mode=train"
    ),
    "leaf Variable that requires grad .*in-place operation": (
        "it changes an input or a weight in place, which torch forbids where that gets a gradient: write x = x.clone()"
    ),
}


def _failure(error: BaseException) -> tuple[str, str]:
    notes = getattr(error, "__notes__", ())
    where = [note for note in notes if note.endswith(" fails:")]
    words = [*where, *str(error).split()]
    twice = r"(Trying to backward through the graph a second time)\b.*"
    message = re.sub(twice, r"\1: does the layer keep a tensor of an earlier call?", " ".join(words))
    message = message if len(message) <= 300 else f"{message[:299]}…"
    of_compiling = compilation.compile_failure(error)
    if of_compiling is not None:
        return of_compiling
    if isinstance(error, result_checks.WrongResult):
        return "incorrect", message
    for of_torch, sentence in _IN_OTHER_WORDS.items():
        if re.search(of_torch, message):
            return "unsupported", " ".join([*where, sentence])
    no_kernel = isinstance(error, RuntimeError) and _NO_KERNEL.search(message)
    if not isinstance(error, workload.Unsupported) and sandbox.is_out_of_memory(error):
        return "oom", message or "out of memory"
    # Triton raises TOO_LARGE, or torch around Triton's exception.
    if isinstance(error, workload.Unsupported) or no_kernel or compilation.TOO_LARGE.search(message):
        return "unsupported", message
    hint = "".join(f". {note}" for note in notes if note.startswith("If "))
    return "error", f"{type(error).__name__}: {message or 'no message'}{_place(error)}{hint}"


def _place(error: BaseException) -> str:
    """The file and line of the layer's innermost frame in the traceback; empty if no layer's code took part."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if layer_protocol.is_of_a_layer(frame.filename):
            return f" ({os.path.basename(frame.filename)}:{frame.lineno})"
    return ""


def count_facts(case: Case, seed: int) -> Answer:
    """Return the exact facts of a call, and why some are missing."""
    facts = collect_metrics(case, seed, measure_accuracy)
    return {**facts, "facts_unknown": [*facts["facts_unknown"], *missing_parts(case)]}


# Entries that a request may lack.
_USUAL: Request = {"modules": (), "with_sustained": False, "most_bytes": None}


def handler_of(purpose: str) -> tuple[Callable[..., Answer], Sequence[str]]:
    """Return what carries out a trial of this kind, and the entries of the request that it takes."""
    kind = kind_of(purpose)
    return referenced(kind.handler), kind.takes


def _measure(request: Request) -> Answer:
    """The measured values. `compiled_anew` counts the graphs that were compiled here, if the layer was compiled.

    The copy of these graphs on disk was missing or unusable.
    """
    purpose = request["purpose"]
    case = Case.from_dict(request["case"]) if request["case"] else None
    if case is not None:
        # The trial sees one GPU. Its layer need not know that the machine has others, so the device is a kind alone.
        case = replace(case, device=gpus.see_only(case.device))
    if case is not None and purpose not in ("describe", "refusals"):
        environment.set_allocator(case.allocator)
        torch.set_num_threads(case.threads)
    function, names = handler_of(purpose)
    entries = {**_USUAL, **request, "case": case}
    measure = partial(function, *(entries[name] for name in names))
    if case is None or not kind_of(purpose).calls_layer:
        return measure()
    directory = request.get("compile_cache")
    compilation.keep_cache_in(directory)
    compilation.prepare_compiler(case)
    outcome = measure()
    workload.check_switches()
    compilation.keep_stubs(directory)
    compilation.check_compiled(case)
    return outcome | ({"compiled_anew": compilation.compiled_anew()} if compilation.compilations() > 0 else {})
