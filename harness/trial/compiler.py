"""torch's compiler in the processes of trials: how it is set up, where it keeps what it made, that it did its work.

A trial is a fresh process and would compile afresh, which takes up to half a minute. So the trials of a case share
what the compiler has written to disk (Inductor's graphs and their machine code, AOTAutograd's, Triton's), each case in
a directory of its own: in torch 2.6 what is kept says nothing of the number of threads that it was made for, and in
later versions it also remembers sizes, so that one case would change what another one compiles.
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
    # No pool of workers: it would run beside the trial, and outlive it.
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    # What is made is kept: the first is so from the start, the second not in torch 2.6.
    "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
    "TORCHINDUCTOR_AUTOGRAD_CACHE": "1",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0",
    # Sizes that were seen in other processes would make this one compile for any size.
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO": "0",
    # The warm parent forks: it may ask for GPUs, but not through CUDA, which does not survive a fork.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
_DIRECTORY = "TORCHINDUCTOR_CACHE_DIR"
# Either switches the compiler off without a word.
_SWITCHES = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE")
# Whether what was saved for the backward pass may become memory for its results.
_DONATED = "donated_buffer"
# The second is its name in torch 2.6.
_LIMITS = ("fail_on_recompile_limit_hit", "fail_on_cache_limit_hit")


def set_up() -> None:
    """Before any of it is imported: it reads its settings once."""
    os.environ.update(SETTINGS)
    # torch's own choice, made here: a trial's temporary directory is removed with the trial.
    os.environ.setdefault(_DIRECTORY, str(Path(tempfile.gettempdir(), f"torchinductor_{_user()}")))


def _user() -> str:
    """The user's name, as torch writes it in the name of a directory."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        name = f"uid_{os.getuid()}"
    return re.sub(r'[\\/:*?"<>|]', "_", name)


@functools.cache
def bring_in(device: str) -> None:
    """Have it here before trials are forked off: imported, and having found out what the machine can do.

    It compiles and loads a program for each set of vector instructions, 2 s where torch has kept them in its own
    directory and 10 s where not. No thread and no process stays behind.
    """
    # It warns of its own parts, and a build for GPUs complains where there is none.
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stderr(io.StringIO()):
        importlib.import_module("torch._dynamo")
        importlib.import_module("torch._inductor.compile_fx")
        if device == "cpu":
            # What speaks against it, no C++ compiler above all, the trial meets as well and tells.
            with contextlib.suppress(Exception):
                importlib.import_module("torch._inductor.cpu_vec_isa").pick_vec_isa()


def keep_in(directory: str | None) -> None:
    """Keep what is compiled in this directory, made at the first need; None: where torch keeps it by itself."""
    if directory is not None:
        os.environ[_DIRECTORY] = directory
        os.environ["TRITON_CACHE_DIR"] = str(Path(directory, "triton"))


def prepare_for(case: Case) -> None:
    """Settings of this trial alone. Where the compiler is switched off, to ask for it raises NotCompiled."""
    off = _switched_off()
    if off:
        torch.compile = _refusing(off)
    if case.mode == "backward":
        # One graph is gone back through again and again: what it has saved must not be used as memory for results.
        setattr(importlib.import_module("torch._functorch.config"), _DONATED, False)
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        # What cannot be compiled must not run uncompiled and be taken for the rest.
        dynamo.config.suppress_errors = False
        name = next(name for name in _LIMITS if hasattr(dynamo.config, name))
        setattr(dynamo.config, name, True)


def check_at_work(case: Case) -> None:
    """Raise NotCompiled where a layer that says it is compiled, or that asked for it, was called and nothing was."""
    if compilations() == 0 and (says_compiled(case.impl) or asked_for() > 0):
        raise NotCompiled("its calls made no compiled graph, and it ran as it is written")


def says_compiled(impl: str) -> bool:
    """Whether the layer says so: ours in the registry, somebody's own as its attribute `compiled`."""
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
