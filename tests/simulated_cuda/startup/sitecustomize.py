"""Python runs this at its start if this directory is on PYTHONPATH. With HARNESS_SIMULATED_CUDA set, torch gets a GPU.

Commands of the harness start processes of their own, and fork further ones. All of them inherit PYTHONPATH, so all of
them have the same simulated GPU. Only tests set it, and nothing of this is in the wheel.

With HARNESS_TEST_ORIGIN alone, the processes have no GPU. Their fork servers are forked from that origin, and with
HARNESS_TEST_FORKED their command, too.
"""

import importlib.abc
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

_REAL = time.perf_counter


class _After(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the module `name`, and then does something to it."""

    def __init__(self, name: str, then: Callable[[Any], None]) -> None:
        self._name, self._then = name, then
        self._loader: Any = None

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> Any:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__.loader = module.__loader__ = self._loader  # type: ignore[union-attr]
        self._loader.exec_module(module)
        self._then(module)


def _install(torch: ModuleType) -> None:
    from simulated_cuda import torch_cuda

    torch_cuda.install()


def _repeat_calls(workload: ModuleType) -> None:
    from simulated_cuda import torch_cuda

    torch_cuda.repeat_calls(workload)


def _fork_servers(fork_client: ModuleType) -> None:
    from forked_servers import ADDRESS, WITH_LAYERS, Origin

    fork_client.subprocess = Origin(WITH_LAYERS, os.environ.get(ADDRESS) or None).subprocess()  # type: ignore[attr-defined]


def _start() -> None:
    sys.meta_path[:0] = [_After("torch", _install), _After("harness.core.trial.workload", _repeat_calls)]
    from simulated_cuda import nvml, process

    # Functions that are imported by name are bound once. So the clock is replaced before anything else is imported.
    time.perf_counter = clock = process.clock(_REAL)  # type: ignore[assignment]
    time.perf_counter_ns = _in_nanoseconds(clock)  # type: ignore[assignment]
    sys.modules["pynvml"] = nvml.module()


def _in_nanoseconds(clock: Callable[[], float]) -> Callable[[], int]:
    return lambda: int(1e9 * clock())


if os.environ.get("HARNESS_SIMULATED_CUDA") or os.environ.get("HARNESS_TEST_ORIGIN"):
    sys.path.append(str(Path(__file__).resolve().parents[2]))  # a worker replaces its path later: all is imported then
    address = os.environ.get("HARNESS_TEST_ORIGIN")
    if address and os.environ.get("HARNESS_TEST_FORKED") and sys.orig_argv[1:2] == ["-m"]:
        from forked_servers import Origin

        Origin(address=address).run_this_command()
    # A comparison starts some forty fork servers, each of which would import torch and all layers.
    sys.meta_path.insert(0, _After("harness.core.run.fork_client", _fork_servers))
if os.environ.get("HARNESS_SIMULATED_CUDA"):
    _start()
