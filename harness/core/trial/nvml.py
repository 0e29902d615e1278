"""A GPU's clock rates, power, temperature, settings and other processes, as NVML tells them."""

import importlib
from collections.abc import Sequence
from statistics import median
from typing import Any

# The reasons why a GPU lowers its clock rate: `nvmlClocksEventReason…` in NVML's API reference, before its version 12.2
# `nvmlClocksThrottleReason…`. The first is that nothing runs.
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


# Reasons that the layer's own work at its usual power explains, or a setting of the user. The others disturb a trial.
_USUAL = _IDLE | 0x2 | 0x4 | 0x10 | 0x100

# The name of an NVML function that finds a GPU, and the function's argument.
Address = tuple[str, str]
# Drivers and bindings used the second name before NVML 12.2.
_REASONS_FUNCTIONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")


def addresses(properties: Any) -> list[Address]:
    """Ways for NVML to find the GPU with these properties (`torch.cuda.get_device_properties`), best first.

    NVML numbers all GPUs of a machine and ignores CUDA_VISIBLE_DEVICES. The GPU is therefore identified by its UUID, or
    by its PCI address.
    """
    found = []
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
    """Readings of one GPU. A reading never raises: an unavailable value is None, and `nvml_note` gives the reason.

    `nvml` is the module of nvidia-ml-py, or a module with the same interface.
    """

    def __init__(self, where: Sequence[Address], nvml: Any = None) -> None:
        self._handle: Any = None
        self._notes: dict[str, str] = {}
        self._readings: list[dict[str, Any]] = []
        self._nvml = nvml
        self._open(where)
        self.sm_clock_max_mhz = self.ask("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM")

    def read(self) -> None:
        """Take a reading. This enqueues nothing, but takes host time, so do not call it inside a sample."""
        power = self.ask("nvmlDeviceGetPowerUsage")
        self._readings.append(
            {
                "sm_clock_mhz": self.ask("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
                "memory_clock_mhz": self.ask("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
                "power_w": None if power is None else power / 1000,
                "temperature_c": self.ask("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
                "throttle": self._reasons(),
            }
        )

    @property
    def is_open(self) -> bool:
        """Whether NVML has found the GPU."""
        return self._handle is not None

    def energy_j(self) -> float | None:
        """The energy that the GPU has used since its driver was loaded, in joules; None if it does not count it.

        The difference of two readings is exact, where `power_w` is an average over the second before it was read.
        """
        energy_mj = self.ask("nvmlDeviceGetTotalEnergyConsumption")
        return None if energy_mj is None else energy_mj / 1000

    def facts(self) -> dict[str, Any]:
        """Summarise the readings.

        Clock rates (MHz) and power (W) are medians, and the temperature (°C) is the highest. All throttle reasons are
        listed. `gpu_processes` is the number of other processes on the GPU. In a container, NVML may not see them all.
        `gpu_disturbed` is whether another process computes there, or the clock rate falls for a reason not in `_USUAL`.
        """
        bits, computing = self._values("throttle"), self._others("Compute")
        signs = [b & ~_USUAL for b in bits] + ([] if computing is None else [computing])
        names = ("sm_clock_mhz", "memory_clock_mhz", "power_w")
        medians = {name: median(values) if (values := self._values(name)) else None for name in names}
        return {
            **medians,
            "sm_clock_max_mhz": self.sm_clock_max_mhz,
            "temperature_c": max(self._values("temperature_c"), default=None),
            "throttle_reasons": sorted({word for b in bits for word in in_words(b)}) if bits else None,
            "gpu_processes": self._others("Compute", "Graphics"),
            "gpu_disturbed": any(signs) if signs else None,
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
        failed = {}
        for function, value in where:
            try:
                self._handle = getattr(self._nvml, function)(value)
                return
            except self._nvml.NVMLError as error:
                failed[value] = str(error)
        self._notes |= failed or {"nvml": "torch does not say which GPU it uses"}

    def ask(self, function: str, *constants: str, of_gpu: bool = True) -> Any:
        """Call an NVML function with the NVML constants of these names. None if there is no answer.

        The function is one of this GPU or, without `of_gpu`, one of the whole system.
        """
        if self._handle is None:
            return None
        try:
            values = [getattr(self._nvml, name) for name in constants]
            return getattr(self._nvml, function)(*([self._handle] if of_gpu else []), *values)
        except self._nvml.NVMLError as error:
            self._notes[function] = str(error)
        except AttributeError:
            self._notes[function] = "not in this nvidia-ml-py"
        return None

    def _reasons(self) -> int | None:
        for function in _REASONS_FUNCTIONS:
            bits = self.ask(function)
            if bits is not None:
                for other in _REASONS_FUNCTIONS:
                    self._notes.pop(other, None)
                return bits
        return None

    def _others(self, *kinds: str) -> int | None:
        lists = [self.ask(f"nvmlDeviceGet{kind}RunningProcesses") for kind in kinds]
        known = [processes for processes in lists if processes is not None]
        pids = {process.pid for processes in known for process in processes}
        # One of them is this process, with its number outside its container.
        return max(0, len(pids) - 1) if known else None

    def _values(self, name: str) -> list[Any]:
        return [reading[name] for reading in self._readings if reading[name] is not None]


class NoGauge:
    """The gauge of a device of which nothing is read, and why."""

    is_open = False

    def __init__(self, why: str) -> None:
        self._why = why

    def facts(self) -> dict[str, Any]:
        """Nothing but the reason."""
        return {"gauge_note": self._why}


# Facts of a GPU that decide how fast it is, and the NVML function and constant that tell each.
_GPU_STATE = {
    "power_limit_mw": ("nvmlDeviceGetPowerManagementLimit",),
    "sm_clock_max_mhz": ("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"),
    "memory_clock_max_mhz": ("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_MEM"),
    "application_sm_clock_mhz": ("nvmlDeviceGetApplicationsClock", "NVML_CLOCK_SM"),
    "default_sm_clock_mhz": ("nvmlDeviceGetDefaultApplicationsClock", "NVML_CLOCK_SM"),
    "application_memory_clock_mhz": ("nvmlDeviceGetApplicationsClock", "NVML_CLOCK_MEM"),
    "persistence_mode": ("nvmlDeviceGetPersistenceMode",),
    "ecc_mode": ("nvmlDeviceGetEccMode",),
    "mig_mode": ("nvmlDeviceGetMigMode",),
}


def gpu_state(where: Sequence[Address], nvml: Any = None) -> dict[str, Any]:
    """The GPU's driver, power limit, clock rates and modes. A mode is 1 if it is on; None if NVML does not tell."""
    gauge = NvmlGauge(where, nvml)
    state = {name: gauge.ask(*asked) for name, asked in _GPU_STATE.items()}
    # ECC and MIG modes are pairs of the present mode and the one after the next start.
    state |= {name: value[0] for name, value in state.items() if isinstance(value, list | tuple)}
    power_mw = state.pop("power_limit_mw")
    return {
        "driver": gauge.ask("nvmlSystemGetDriverVersion", of_gpu=False),
        "power_limit_w": None if power_mw is None else power_mw / 1000,
        **state,
    }
