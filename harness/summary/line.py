"""A line of `summary.csv`: its columns, their order and their units."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING

from harness.case import AXES, Case

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Line:
    """The columns of one case, in this order. Units are seconds and bytes; None marks a missing value."""

    impl: str
    family: str
    seq_len: int
    d_model: int
    num_heads: int
    batch_size: int
    mode: str
    dtype: str
    device: str
    threads: int
    status: str
    reason: str | None
    # Time of one call.
    time_s: float | None
    time_lo_s: float | None
    time_hi_s: float | None
    time_median_s: float | None
    trials: int
    stop_reason: str | None
    # Memory of one call beyond weights and inputs: the total, the part the kernel saw, the part from torch's allocator.
    peak_bytes: int | None
    peak_resident_bytes: int | None
    peak_traced_bytes: int | None
    tokens_per_s: float | None
    # Exact facts of one call.
    flops: int | None
    flops_full: int | None
    ops: int | None
    depth: int | None
    depth_declared: int | None
    min_bytes: int | None
    weights_bytes: int | None
    inputs_bytes: int | None
    saved_bytes: int | None
    transient_bytes: int | None
    backend: str | None
    # Other observations of the timed trials.
    compile_s: float | None
    minor_faults_per_call: float | None
    involuntary_switches: float | None
    cpu_over_wall: float | None
    steal_share: float | None
    humps: int | None
    sm_clock_mhz: float | None
    # Additions to these: the FLOPs that the layer claims; flops / min_bytes; why no faster kernel was used; why facts
    # are missing; the two times of a bimodal case and their cause. On a GPU: whether the host's launches take longer
    # than the work, and the time of back-to-back calls.
    allocator: str
    flops_claimed: int | None
    flops_per_byte: float | None
    backend_fallback: str | None
    facts_unknown: str | None
    hump_fast_s: float | None
    hump_slow_s: float | None
    hump_cause: str | None
    host_bound: bool | None
    wall_call_s: float | None
    # Claims of a user's own layer, as JSON by the names of `harness.claims.CLAIMS`.
    claims: str | None
    # Which tokens each token may attend to; the share of tokens that are not padding; the source length, 0 without one.
    mask: str
    real_share: float
    source_len: int
    # Hosts that timed the case, separated by commas.
    host: str | None

    @property
    def case(self) -> Case:
        """The case that this line describes."""
        return Case(*(getattr(self, axis) for axis in AXES))

    @property
    def allocates_outside_torch(self) -> bool:
        """Whether torch traced only a part of the peak memory, so that `peak_traced_bytes` is a lower bound."""
        return self.peak_bytes is None and self.peak_traced_bytes is not None


COLUMNS: tuple[str, ...] = tuple(field.name for field in fields(Line))
# The columns of whole numbers.
WHOLE: frozenset[str] = frozenset(field.name for field in fields(Line) if field.type in (int, int | None))


def table(lines: Iterable[Line]) -> "pd.DataFrame":
    """The lines as a tidy DataFrame. Columns of whole numbers stay integers, even with missing values."""
    import pandas as pd  # imported here to keep a sweep that only counts its cases fast

    cells = dict(zip(COLUMNS, zip(*map(attrgetter(*COLUMNS), lines), strict=True), strict=False))
    # Without an explicit dtype, pandas would turn counts with gaps into floats and round large numbers.
    whole = {name: pd.array(cells[name], dtype="Int64") for name in WHOLE if name in cells}
    return pd.DataFrame({**cells, **whole}, columns=list(COLUMNS)).convert_dtypes()
