"""What a GPU machine is, and the durations that decide how long everything else takes.

    python -m gpu_evidence.machine_facts FACTS.json [FACT…]

Each fact is printed and written as it is found. One that cannot be had is noted with its error, and the next follows.
"""

import importlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PACKAGES = ("torch", "triton", "numpy", "pandas", "scipy", "matplotlib", "seaborn", "pytest", "transformers")
_VARIABLES = ("CUDA", "CUDNN", "CUBLAS", "NVIDIA", "TORCH", "PYTORCH", "TRITON", "OMP", "MKL", "LD_LIBRARY", "PYTHON")
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_SMI = (
    *("name", "driver_version", "persistence_mode", "power.limit", "power.draw", "clocks.sm", "clocks.max.sm"),
    *("clocks.mem", "ecc.mode.current", "mig.mode.current", "compute_mode", "temperature.gpu", "memory.total"),
)
_QUERIES = 50
_RENEWALS_S = 0.5
# A process as a trial is one: torch is imported, then the GPU works for the first time.
_NEW_PROCESS = """
import time
began = time.time()
import torch
imported = time.time()
torch.zeros(1, device="cuda")
torch.cuda.synchronize()
print(imported - began, time.time() - imported)
"""
_N = _D = 16 if os.environ.get("HARNESS_SIMULATED_CUDA") else 1024


def seconds(call: Callable[[], Any], times: int = 1) -> float:
    """The mean seconds of a call."""
    began = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - began) / times


def _printed(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def _torch() -> Any:
    return importlib.import_module("torch")


def _cpus() -> dict[str, Any]:
    free_disk_bytes = shutil.disk_usage("/tmp").free
    return {"usable": len(os.sched_getaffinity(0)), "load": os.getloadavg(), "free_disk_bytes": free_disk_bytes}


def _nvidia_smi() -> dict[str, str]:
    if shutil.which("nvidia-smi") is None:
        return {"nvidia-smi": "not on PATH"}
    values = _printed("nvidia-smi", f"--query-gpu={','.join(_SMI)}", "--format=csv,noheader").split(", ")
    return dict(zip(_SMI, values, strict=True))


def _variables() -> dict[str, str]:
    names = [name for name in os.environ if name.startswith(_VARIABLES)]
    return {name: os.environ[name] for name in names if not any(word in name for word in _SECRET)}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _gpu_state() -> dict[str, Any]:
    from harness.core.trial import nvml

    return nvml.gpu_state(nvml.addresses(_torch().cuda.get_device_properties(0)))


def _nvml_seconds() -> dict[str, Any]:
    """The seconds of a query, and how often the counter of energy is renewed."""
    from harness.core.trial import nvml

    where = nvml.addresses(_torch().cuda.get_device_properties(0))
    opened_s = seconds(lambda: nvml.NvmlGauge(where))
    gauge = nvml.NvmlGauge(where)
    if not gauge.is_open:
        return {"missing": gauge.facts()["nvml_note"]}
    return {
        "open_s": opened_s,
        "energy_s": seconds(gauge.energy_j, _QUERIES),
        "reading_s": seconds(gauge.read, _QUERIES),
        "energy_renewed_every_s": _renewal_s(gauge.energy_j),
        "note": gauge.facts()["nvml_note"],
    }


def _renewal_s(energy_j: Callable[[], float | None]) -> float | None:
    """The seconds between two changes of the counter; None if it did not change twice."""
    changes: list[float] = []
    last, began = energy_j(), time.perf_counter()
    while (passed_s := time.perf_counter() - began) < _RENEWALS_S:
        value = energy_j()
        if value != last:
            changes.append(passed_s)
        last = value
    return (changes[-1] - changes[0]) / (len(changes) - 1) if len(changes) > 1 else None


def _calls() -> dict[str, Callable[[], Any]]:
    """Calls in bfloat16 whose first use loads or plans something."""
    torch = _torch()
    x = torch.randn(_N, _D, device="cuda", dtype=torch.bfloat16)
    q = torch.randn(4, 16, _N, 64, device="cuda", dtype=torch.bfloat16)
    shorter = q[:, :, : 3 * _N // 4]
    rnn = torch.nn.RNN(_D, _D, batch_first=True).to("cuda", torch.bfloat16)
    tokens = torch.randn(4, _N // 2, _D, device="cuda", dtype=torch.bfloat16)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return {
        "product": lambda: x @ x,
        "sdpa": lambda: sdpa(q, q, q),
        "sdpa of another size": lambda: sdpa(shorter, q, q),
        "rnn": lambda: rnn(tokens),
        "sum": lambda: x.sum(),
    }


def _first_uses() -> dict[str, dict[str, float]]:
    """The seconds of each call's first use, and of later ones."""
    calls = {name: _with_a_wait(call) for name, call in _calls().items()}
    return {name: {"first_s": seconds(call), "later_s": seconds(call, 5)} for name, call in calls.items()}


def _with_a_wait(call: Callable[[], Any]) -> Callable[[], None]:
    def waited() -> None:
        with _torch().no_grad():
            call()
        _torch().cuda.synchronize()

    return waited


def _kernels() -> dict[str, str]:
    """The kernels that torch chooses for attention and an RNN in bfloat16, as the column `backend` names them."""
    from harness.core.trial.counts.opaque_kernels import backend_name

    torch, chosen = _torch(), {}
    for name in ("sdpa", "rnn"):
        with torch.no_grad(), torch.autograd.profiler.profile() as recorded:
            _calls()[name]()
        operations = [event.name() for event in recorded.kineto_results.events()]
        chosen[name] = backend_name(operations)
    return chosen


def _new_processes() -> list[dict[str, float]]:
    """The seconds of an import of torch and of the first use of the GPU, in two processes one after the other."""
    durations = []
    for _ in range(2):
        import_s, first_use_s = _printed(sys.executable, "-c", _NEW_PROCESS).split()
        durations.append({"import_s": float(import_s), "first_use_s": float(first_use_s)})
    return durations


FACTS: dict[str, Callable[[], Any]] = {
    "python": lambda: f"{platform.python_version()} {sys.executable}, {platform.platform()}",
    "nvidia_smi": _nvidia_smi,
    "compilers": lambda: {name: shutil.which(name) for name in ("gcc", "g++", "clang", "nvcc", "git")},
    "python_header": lambda: Path(sysconfig.get_paths()["include"], "Python.h").exists(),
    "variables": _variables,
    "cpus": _cpus,
    "packages": lambda: {name: _version(name) for name in _PACKAGES},
    "import_of_torch_s": lambda: seconds(_torch),
    "torch": lambda: {"cuda": _torch().version.cuda, "cudnn": _torch().backends.cudnn.version()},
    "first_call_s": lambda: seconds(lambda: _torch().zeros(1, device="cuda")),
    "gpu": lambda: _torch().cuda.get_device_name(),
    "properties": lambda: str(_torch().cuda.get_device_properties(0)),
    "gpu_state": _gpu_state,
    "nvml": _nvml_seconds,
    "first_uses": _first_uses,
    "kernels": _kernels,
    "new_processes": _new_processes,
}


def main() -> int:
    """Find the facts that are named, or all. Return 1 if torch sees no GPU."""
    into = Path(sys.argv[1])
    found: dict[str, Any] = {}
    for name in sys.argv[2:] or FACTS:
        try:
            found[name] = FACTS[name]()
        except Exception as error:  # one missing fact must not cost the others: it is noted, and shown
            found[name] = f"error: {type(error).__name__}: {error}"[:300]
        print(f"{name}: {found[name]}", flush=True)
        into.write_text(json.dumps(found, indent=1, default=str))
    return 1 if str(found["gpu"]).startswith("error") else 0


if __name__ == "__main__":
    sys.exit(main())
