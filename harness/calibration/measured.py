"""Everything that a calibration measured and read, as one record for advice, table and file."""

from dataclasses import dataclass
from typing import Any

from harness.calibration.load import Load
from harness.calibration.noise import Floor
from harness.calibration.state import State


@dataclass(frozen=True)
class Calibration:
    """One machine, one device, one number of threads, one precision. Shares are fractions of one.

    The noise floor between measurements side by side is `noise`. The one between measurements some time apart is
    `noise_between_repeats`, None with a single repeat. The largest difference between two copies of each case is in
    `noise_by_case`. One reading of the clock takes `clock_s`.

    Both `peak_flops_per_s` and `peak_sizes` are by dtype. A dtype that cannot be multiplied here is missing, and
    `failures` has the reason. The result of `take_bandwidth` is in `bandwidth`.
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
        """Bytes read and written per second, the better of copy and triad; None if not measured."""
        return self.bandwidth.get("bandwidth_bytes_per_s")
