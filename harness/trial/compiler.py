"""Torch's compiler in trial processes: its settings, its cache directories, and the check that it really compiled.

A trial is a fresh process and would compile from scratch, which takes up to half a minute. The trials of a case
therefore share the compiler's caches on disk (Inductor's graphs and their machine code, AOTAutograd's, Triton's).

Each case has its own directory, for two reasons. In torch 2.6, a cache entry does not record the number of threads for
which it was made. Later versions also remember sizes, so one case would change what another one compiles.
"""

import contextlib
import functools
import getpass
import importlib
import io
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import torch

from harness import catalog
from harness.case import Case
from harness.trial.compile_failure import NotCompiled
from harness.trial.timing.compiled import asked_for, compilations

SETTINGS = {
    # No worker pool: it would run beside the trial and outlive it.
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    # Keep compiled code. The first setting is the default in all versions, the second is not in torch 2.6.
    "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
    "TORCHINDUCTOR_AUTOGRAD_CACHE": "1",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0",
    # Sizes seen in other processes would make this one compile for any size.
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO": "0",
    # The fork server may query GPUs, but not through CUDA, which does not survive a fork.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
_DIRECTORY = "TORCHINDUCTOR_CACHE_DIR"
# Each of these silently switches the compiler off.
_SWITCHES = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE")
# Whether the backward pass may reuse the memory of saved tensors for its results.
_DONATED = "donated_buffer"
# The second name is that of torch 2.6.
_LIMITS = ("fail_on_recompile_limit_hit", "fail_on_cache_limit_hit")


def set_up() -> None:
    """Set the environment variables of the compiler.

    Call it before importing the compiler, which reads them only once.
    """
    os.environ.update(SETTINGS)
    # This is torch's own default, fixed here because a trial's temporary directory is removed with the trial.
    os.environ.setdefault(_DIRECTORY, str(Path(tempfile.gettempdir(), f"torchinductor_{_user()}")))


def _user() -> str:
    """Return the user's name as torch writes it in directory names."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        name = f"uid_{os.getuid()}"
    return re.sub(r'[\\/:*?"<>|]', "_", name)


@functools.cache
def bring_in(device: str) -> None:
    """Import the compiler, and let it detect the machine's capabilities, before trials are forked.

    The detection compiles and loads a program for each set of vector instructions. This takes 2 s if torch has cached
    them in its own directory, and 10 s if not. No thread and no process remains afterwards.
    """
    # The compiler warns about its own parts, and a build for GPUs complains on machines without one.
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stderr(io.StringIO()):
        importlib.import_module("torch._dynamo")
        importlib.import_module("torch._inductor.compile_fx")
        if device == "cpu":
            # The trial will meet and report the same problems, above all a missing C++ compiler.
            with contextlib.suppress(Exception):
                importlib.import_module("torch._inductor.cpu_vec_isa").pick_vec_isa()


def keep_in(directory: str | None) -> None:
    """Keep compiled code in this directory, created when first needed. With None, torch's own choice stays."""
    if directory is not None:
        os.environ[_DIRECTORY] = directory
        os.environ["TRITON_CACHE_DIR"] = str(Path(directory, "triton"))


def prepare_for(case: Case) -> None:
    """Apply the settings of this trial. If the compiler is switched off, using it will raise NotCompiled."""
    off = _switched_off()
    if off:
        torch.compile = _refusing(off)
    if case.mode == "backward":
        # The backward pass runs repeatedly through one graph, so its saved tensors must not be reused for results.
        setattr(importlib.import_module("torch._functorch.config"), _DONATED, False)
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        # Code that cannot be compiled must not silently run uncompiled.
        dynamo.config.suppress_errors = False
        name = next(name for name in _LIMITS if hasattr(dynamo.config, name))
        setattr(dynamo.config, name, True)


def check_at_work(case: Case) -> None:
    """Raise NotCompiled if a layer that declares or requested compilation was called and nothing was compiled."""
    if compilations() == 0 and (says_compiled(case.impl) or asked_for() > 0):
        raise NotCompiled("its calls made no compiled graph, and it ran as it is written")


def says_compiled(impl: str) -> bool:
    """Return whether the layer declares compilation: in the registry, or by a user layer's attribute `compiled`."""
    if catalog.is_foreign(impl):
        return bool(getattr(catalog.load_class(impl), "compiled", False))
    return catalog.is_compiled(impl)


def _switched_off() -> str | None:
    given = {name: os.environ.get(name, "0") for name in _SWITCHES}
    return next((f"{name}={value}" for name, value in given.items() if value not in ("", "0")), None)


def _refusing(off: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise NotCompiled(f"{off} switches the compiler off")

    return refuse
