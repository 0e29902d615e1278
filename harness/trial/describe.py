"""What can be said of an impl and of torch without measuring: asked once, before the first trial."""

import sys
from typing import Any

import torch

from harness import checkout, claims, layer_files
from harness.case import Case
from harness.errors import UsageError
from harness.trial.build import takes_heads
from harness.trial.own_module import timed_import


def describe(case: Case) -> dict[str, Any]:
    """Family and heads of the case's impl, and whether it says that it compiles: by the class's attributes, heads else
    by its constructor. And how long its module takes to import, whether trials may be forked off after that, and what
    file it is from, None of a module without one; and its code, as `harness.layer_files` has it.
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
        "files": layer_files.of_class(layer_class),
    }


def _refused_claims(layer_class: type) -> str | None:
    """What is wrong with its claims: told before anything is measured, since a trial would lose all facts by it."""
    try:
        claims.of_class(layer_class)
    except UsageError as error:
        return str(error)
    return None


def torch_facts() -> dict[str, Any]:
    """Version, build and thread settings of torch, the GPU if there is one, and where this harness is."""
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
