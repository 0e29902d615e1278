"""Everything that a calibration measured and read: one record, of which advice, table and file are made."""

from dataclasses import dataclass
from typing import Any

from harness.calibration.load import Load
from harness.calibration.noise import Floor
from harness.calibration.state import State


@dataclass(frozen=True)
class Calibration:
    """One machine, one device, one number of threads, one precision. Shares are fractions of one.

    `noise` is the floor between measurements side by side, `noise_between_repeats` the one between measurements
    a while apart (None with a single repeat), `noise_by_case` how far two copies of each case lay apart at most.
    `clock_s` is what a reading of the clock takes. `peak_flops_per_s` and `peak_sizes` are by dtype; a dtype that
    cannot be multiplied here is missing, with its reason in `failures`. `bandwidth` is what `take_bandwidth` gives.
    """

    date: str
    host: str
    cpu_model: str
    gpu: str | None
    torch_version: str
    device: str
    threads: int
    dtype: str
    precision: str
    limits: dict[str, float]
    took_s: float
    clock_s: float
    noise: Floor
    noise_between_repeats: float | None
    noise_by_case: dict[str, float]
    disturbed_share: float | None
    peak_flops_per_s: dict[str, float]
    peak_sizes: dict[str, int]
    bandwidth: dict[str, Any]
    failures: tuple[str, ...]
    load: Load
    state: State

    @property
    def noise_floor(self) -> float:
        """The smallest slow-down that noise alone seldom reaches, as a share."""
        return self.noise.floor

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        """Bytes to and from memory per second, the better of copy and triad; None where it was not measured."""
        return self.bandwidth.get("bandwidth_bytes_per_s")
