"""A stand-in for pynvml, which tells of this process's simulated GPU. A query takes the host a while."""

import math
import os
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from simulated_cuda import process

# Those of an H200 are shorter, but for that of energy.
QUERY_S, ENERGY_QUERY_S = 1e-3, 3.6e-3
# The counter of energy is renewed this often, and power is an average over this time.
RENEWED_S, AVERAGED_S = 0.1, 1.0


class NVMLError(Exception):
    """As pynvml's."""


def module() -> ModuleType:
    """The module `pynvml`."""
    made = ModuleType("pynvml", __doc__)
    constants = {"NVML_CLOCK_SM": 1, "NVML_CLOCK_MEM": 2, "NVML_TEMPERATURE_GPU": 0}
    general = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "1.0 (simulated)",
        "nvmlDeviceGetCount": lambda: len(process.settings().power_limits_w),
        "nvmlDeviceGetHandleByIndex": lambda index: sorted(process.settings().power_limits_w)[index],
        "nvmlDeviceGetHandleByUUID": _by_uuid,
        "nvmlDeviceGetHandleByPciBusId": _refuse,
        "nvmlDeviceGetUUID": "GPU-{}".format,
        "nvmlDeviceGetPowerManagementLimit": lambda handle: int(1000 * process.settings().power_limits_w[handle]),
    }
    takes_s = dict.fromkeys(_ANSWERS, QUERY_S) | {"TotalEnergyConsumption": ENERGY_QUERY_S}
    functions = {f"nvmlDeviceGet{name}": _query(answer, takes_s[name]) for name, answer in _ANSWERS.items()}
    vars(made).update({**constants, **general, **functions, "NVMLError": NVMLError})
    return made


def _by_uuid(uuid: str | bytes) -> str:
    named = (uuid.decode() if isinstance(uuid, bytes) else uuid).removeprefix("GPU-")
    return named if process.settings().nvml and named in process.settings().power_limits_w else _refuse()


def _refuse(*arguments: Any) -> Any:
    raise NVMLError("Not Found")


def _query(answer: Callable[..., Any], takes_s: float) -> Callable[..., Any]:
    def asked(handle: str, *arguments: Any) -> Any:
        mine = process.here()
        if process.is_used():
            mine.gpu.now += takes_s
        return answer(mine.gpu, *arguments)

    return asked


def _mhz(gpu: Any, kind: int) -> int:
    """The present clock rate, which is also that of a GPU at work on another stream."""
    clock = gpu.clock
    rate = clock._hz or clock.boost_hz
    return round((rate if kind == 1 else 2e9) * (clock.falls_to if gpu.now >= clock.falls_at_s else 1.0) / 1e6)


def _reasons(gpu: Any) -> int:
    if gpu.doing() == "idle":
        return 0x1
    if gpu.now >= gpu.clock.falls_at_s:
        return 0x20
    return 0x4 if _mhz(gpu, 1) < 0.95 * gpu.clock.boost_hz / 1e6 else 0


_ANSWERS: dict[str, Callable[..., Any]] = {
    "ClockInfo": _mhz,
    "MaxClockInfo": lambda gpu, kind: round(gpu.clock.boost_hz / 1e6) if kind == 1 else 2000,
    "ApplicationsClock": lambda gpu, kind: round(gpu.clock.boost_hz / 1e6) if kind == 1 else 2000,
    "PowerUsage": lambda gpu: int(
        1000 * (gpu.joules(gpu.now) - gpu.joules(gpu.now - AVERAGED_S)) / max(min(gpu.now, AVERAGED_S), 1e-9)
    ),
    "TotalEnergyConsumption": lambda gpu: int(1000 * gpu.joules(math.floor(gpu.now / RENEWED_S) * RENEWED_S)),
    "Temperature": lambda gpu, sensor: 60,
    "CurrentClocksEventReasons": _reasons,
    "ComputeRunningProcesses": lambda gpu: [SimpleNamespace(pid=os.getpid(), usedGpuMemory=2**28)],
    "GraphicsRunningProcesses": lambda gpu: [],
    "PersistenceMode": lambda gpu: 1,
    "EccMode": lambda gpu: [1, 1],
    "MigMode": _refuse,
    "Name": lambda gpu: process.here().settings.name,
    "MemoryBusWidth": lambda gpu: 64,
}
