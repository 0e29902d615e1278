"""One line of `summary.csv`: its columns, their order and their units."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING

from harness.case import AXES, Case

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Line:
    """One case, its columns in this order: seconds, bytes, one number a cell, None where there is none."""

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
    # Memory of one call, beyond weights and inputs: in all; as the kernel sees it; what torch's allocator handed out.
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
    # What else happened in the timed trials.
    compile_s: float | None
    minor_faults_per_call: float | None
    involuntary_switches: float | None
    cpu_over_wall: float | None
    steal_share: float | None
    humps: int | None
    sm_clock_mhz: float | None
    # What goes with these: what the layer claims of flops; flops / min_bytes; why there is no faster kernel, no fact,
    # not one hump; on a GPU, whether the host's launches take longer than its work, and what calls back to back take.
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
    # What somebody's own layer claims of itself, as JSON by the names of `harness.claims.CLAIMS`.
    claims: str | None
    # What a token may look at; the share of tokens that are no padding; the length of a source, 0 without.
    mask: str
    real_share: float
    source_len: int
    # Where it was timed; several with a comma between.
    host: str | None

    @property
    def case(self) -> Case:
        """The point of the grid that it is of."""
        return Case(*(getattr(self, axis) for axis in AXES))

    @property
    def allocates_outside_torch(self) -> bool:
        """Whether torch has traced a part of the peak memory only: `peak_traced_bytes` is a lower bound."""
        return self.peak_bytes is None and self.peak_traced_bytes is not None


COLUMNS: tuple[str, ...] = tuple(field.name for field in fields(Line))
# Those of whole numbers.
WHOLE: frozenset[str] = frozenset(field.name for field in fields(Line) if field.type in (int, int | None))


def table(lines: Iterable[Line]) -> "pd.DataFrame":
    """The lines as a tidy DataFrame; whole numbers stay whole where some are missing."""
    import pandas as pd  # here: a sweep that only counts its cases must not pay for it

    cells = dict(zip(COLUMNS, zip(*map(attrgetter(*COLUMNS), lines), strict=True), strict=False))
    # Not left to pandas: a column of counts with a gap would pass through floats, and large ones lose a digit.
    whole = {name: pd.array(cells[name], dtype="Int64") for name in WHOLE if name in cells}
    return pd.DataFrame({**cells, **whole}, columns=list(COLUMNS)).convert_dtypes()
