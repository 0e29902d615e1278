"""Facts about a layer and about torch that need no measurement, collected once before the first trial."""

import sys
from typing import Any

import torch

from harness import checkout, claims, layer_files
from harness.case import Case
from harness.errors import UsageError
from harness.trial.build import takes_heads
from harness.trial.own_module import timed_import


def describe(case: Case) -> dict[str, Any]:
    """Return the description of the case's layer.

    - `family`, `has_heads`, `compiled`: from the class's attributes. Without the attribute, `has_heads` follows from
      the constructor.
    - `import_s`: seconds that importing the layer's module takes.
    - `forkable`: whether trials may be forked after the import.
    - `claims_refused`: what is wrong with the layer's claims, or None.
    - `file`: the file of the module, or None if it has none.
    - `files`: the layer's code, as returned by `harness.layer_files`.
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
    """Return what is wrong with the layer's claims, or None.

    This is reported before anything is measured, because an invalid claim would cost a trial all its facts.
    """
    try:
        claims.of_class(layer_class)
    except UsageError as error:
        return str(error)
    return None


def torch_facts() -> dict[str, Any]:
    """Return torch's version, build and thread settings, the GPU if any, and the location of this harness."""
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
