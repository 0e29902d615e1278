"""Read a GPU's clock rates, power, temperature and other processes with NVML.

An unavailable value is None, and a note gives the reason.
"""

import importlib
from collections.abc import Sequence
from statistics import median
from typing import Any

# The reasons why a GPU lowers its clock rate. The bits are `nvmlClocksEventReason…` in NVML's API reference,
# `nvmlClocksThrottleReason…` before its version 12.2.

# Nothing runs, so the clock rate falls. This does not explain slow work.
_IDLE = 0x1
_REASONS = {
    0x2: "application clocks setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
    0x200: "board limit",
    0x400: "reliability",
}


def in_words(bits: int) -> list[str]:
    """The reasons in `bits`, lowest bit first, without idleness. All unknown bits become one entry, in hexadecimal."""
    named = [word for bit, word in _REASONS.items() if bits & bit]
    unknown = bits & ~(_IDLE | sum(_REASONS))
    return named + ([f"reason {unknown:#x}"] if unknown else [])


# The name of an NVML function that finds a GPU, and the function's argument.
Address = tuple[str, str]
# Drivers and bindings used the second name before NVML 12.2.
_REASONS_FUNCTIONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")


def addresses(properties: Any) -> list[Address]:
    """Ways for NVML to find the GPU with these properties (`torch.cuda.get_device_properties`), best first.

    NVML numbers all GPUs of a machine and ignores CUDA_VISIBLE_DEVICES. The GPU is therefore identified by its UUID, or
    by its PCI address.
    """
    found: list[Address] = []
    uuid = str(getattr(properties, "uuid", "")).removeprefix("GPU-")
    if uuid:
        found.append(("nvmlDeviceGetHandleByUUID", f"GPU-{uuid}"))
    if hasattr(properties, "pci_bus_id"):  # since torch 2.8
        where = f"{properties.pci_domain_id:08x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
        found.append(("nvmlDeviceGetHandleByPciBusId", where))
    if uuid:  # a slice of a GPU, for which NVML reports fewer values than for a whole GPU
        found.append(("nvmlDeviceGetHandleByUUID", f"MIG-{uuid}"))
    return found


class NvmlGauge:
    """Readings of one GPU. A reading never raises: `nvml_note` gives the reason for a missing value.

    `nvml` is the module of nvidia-ml-py, or a module with the same interface.
    """

    def __init__(self, where: Sequence[Address], nvml: Any = None) -> None:
        self._handle: Any = None
        self._notes: dict[str, str] = {}
        self._readings: list[dict[str, Any]] = []
        self._nvml = nvml
        self._open(where)
        self.sm_clock_max_mhz: int | None = self._ask("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM")

    def read(self) -> None:
        """Take a reading. This enqueues nothing, but takes host time, so do not call it inside a sample."""
        power = self._ask("nvmlDeviceGetPowerUsage")
        self._readings.append(
            {
                "sm_clock_mhz": self._ask("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
                "memory_clock_mhz": self._ask("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
                "power_w": None if power is None else power / 1000,
                "temperature_c": self._ask("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
                "throttle": self._reasons(),
            }
        )

    def facts(self) -> dict[str, Any]:
        """Summarise the readings.

        Clock rates (MHz) and power (W) are medians, and the temperature (°C) is the highest. All throttle reasons are
        listed. `gpu_processes` is the number of other processes on the GPU. In a container, NVML may not see them all.
        """
        bits = self._values("throttle")
        temperatures = self._values("temperature_c")
        return {
            "sm_clock_mhz": self._median("sm_clock_mhz"),
            "sm_clock_max_mhz": self.sm_clock_max_mhz,
            "memory_clock_mhz": self._median("memory_clock_mhz"),
            "power_w": self._median("power_w"),
            "temperature_c": max(temperatures, default=None),
            "throttle_reasons": sorted({word for b in bits for word in in_words(b)}) if bits else None,
            "gpu_processes": self._others(),
            "nvml_note": "; ".join(f"{what}: {why}" for what, why in self._notes.items()) or None,
        }

    def _open(self, where: Sequence[Address]) -> None:
        try:
            self._nvml = self._nvml or importlib.import_module("pynvml")
        except ImportError as error:
            self._notes["pynvml"] = str(error)
            return
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            self._notes["nvmlInit"] = str(error)
            return
        failed: dict[str, str] = {}
        for function, value in where:
            try:
                self._handle = getattr(self._nvml, function)(value)
                return
            except self._nvml.NVMLError as error:
                failed[value] = str(error)
        self._notes |= failed or {"nvml": "torch does not say which GPU it uses"}

    def _ask(self, function: str, *constants: str) -> Any:
        """Call an NVML function for this GPU, with the NVML constants of these names. None if there is no answer."""
        if self._handle is None:
            return None
        try:
            return getattr(self._nvml, function)(self._handle, *(getattr(self._nvml, name) for name in constants))
        except self._nvml.NVMLError as error:
            self._notes[function] = str(error)
        except AttributeError:
            self._notes[function] = "not in this nvidia-ml-py"
        return None

    def _reasons(self) -> int | None:
        for function in _REASONS_FUNCTIONS:
            bits: int | None = self._ask(function)
            if bits is not None:
                for other in _REASONS_FUNCTIONS:
                    self._notes.pop(other, None)
                return bits
        return None

    def _others(self) -> int | None:
        lists = [self._ask(f"nvmlDeviceGet{kind}RunningProcesses") for kind in ("Compute", "Graphics")]
        known = [processes for processes in lists if processes is not None]
        pids = {process.pid for processes in known for process in processes}
        # One of them is this process, with its number outside its container.
        return max(0, len(pids) - 1) if known else None

    def _values(self, name: str) -> list[Any]:
        return [reading[name] for reading in self._readings if reading[name] is not None]

    def _median(self, name: str) -> float | None:
        values = self._values(name)
        return median(values) if values else None
