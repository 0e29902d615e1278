"""A run in a notebook: `run = harness.load("results/latest")`, then `run.table`, `run.laws`, `run.plot.time()`."""

import io
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.findings.crossovers import crossovers_table
from harness.findings.findings import Findings, find
from harness.findings.laws import fit_laws, laws_table
from harness.findings.papers.figures import published_table
from harness.findings.roofline import why_no_roof
from harness.findings.verdicts import claims_table
from harness.report.panels import Setting, settings
from harness.summary import Line, table
from harness.summary.stored import read_stored
from harness.summary.tidy import lines_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Run:
    """A run that was measured before; reading it measures nothing and writes nothing."""

    def __init__(
        self,
        path: Path,
        lines: list[Line],
        machine: dict[str, Any],
        notices: Sequence[str],
        config: dict[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.lines = lines
        self.machine = machine
        self.notices = list(notices)
        self.config = config or {}

    def __repr__(self) -> str:
        impls = dict.fromkeys(line.impl for line in self.lines)
        return f"<run {self.path}: {len(self.lines)} cases of {', '.join(impls)}>"

    @cached_property
    def table(self) -> "pd.DataFrame":
        """`summary.csv`: a line a case."""
        return table(self.lines)

    @cached_property
    def findings(self) -> Findings:
        """Everything that the lines say, as objects."""
        return find(self.lines, self.machine, self.config)

    @cached_property
    def laws(self) -> "pd.DataFrame":
        """`laws.csv`: the law of every impl's time, memory, FLOPs and depth."""
        return laws_table(self.findings.laws)

    @cached_property
    def claims(self) -> "pd.DataFrame":
        """`claims.csv`: what theory claims, and the verdicts."""
        return claims_table(self.findings.verdicts)

    @cached_property
    def crossovers(self) -> "pd.DataFrame":
        """`crossovers.csv`: from which n on one impl costs more than another."""
        return crossovers_table(self.findings.crossovers)

    @cached_property
    def published(self) -> "pd.DataFrame":
        """`published.csv`: what a paper has published of the setting, and what was measured; empty without a paper."""
        found = self.findings.published
        return published_table(found.figures if found is not None else [])

    @property
    def plot(self) -> "Plots":
        """The run's pictures."""
        return Plots(self)


class Plots:
    """The pictures of plots/, drawn on demand. Several settings (modes, dtypes, threads, …) have a picture each."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def time(self, **setting: Any) -> "Picture":
        """Time of one call against n. `setting` chooses where there are several: `mode="train"`."""
        from harness.report.plots.cost import TIME
        from harness.report.plots.curves import curves

        return self._picture(lambda one: curves(one, TIME), setting)

    def memory(self, **setting: Any) -> "Picture":
        """Peak memory of one call against n."""
        from harness.report.plots.cost import MEMORY
        from harness.report.plots.curves import curves

        return self._picture(lambda one: curves(one, MEMORY), setting)

    def speedup(self, **setting: Any) -> "Picture":
        """How many times as fast as naive attention."""
        from harness.report.plots.speedup import speedup

        return self._picture(speedup, setting)

    def roofline(self, **setting: Any) -> "Picture":
        """Each case against what the machine can do."""
        from harness.report.plots.roofline import roofline

        found = self._run.findings
        if not found.roofs:
            raise UsageError(why_no_roof(self._run.machine))
        return self._picture(lambda one: roofline(one, found.roofs, found.roof_points), setting)

    def _picture(self, draw: "Callable[[Setting], Figure | None]", wanted: dict[str, Any]) -> "Picture":
        known = {name for line in self._run.lines[:1] for name in vars(line)}
        if wanted.keys() - known:
            raise UsageError(f"no setting {', '.join(sorted(wanted.keys() - known))}: mode, dtype, device, threads, …")
        lines = [line for line in self._run.lines if all(getattr(line, k) == v for k, v in wanted.items())]
        every = settings(lines)
        if not every:
            raise UsageError("nothing was measured there")
        figure = draw(every[0])
        if figure is None:
            raise UsageError("there is nothing to draw")
        if len(every) > 1:
            others = "; ".join(one.title for one in every[1:])
            figure.text(0.01, 0.005, f"there is more: {others}", fontsize=7, color="0.5")
        return Picture(figure)


class Picture:
    """A figure that a notebook shows by itself; `figure` is matplotlib's own."""

    def __init__(self, figure: "Figure") -> None:
        self.figure = figure

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()

    def save(self, path: str | Path) -> None:
        """Write it to a file; the ending says in what format."""
        self.figure.savefig(path)


def load(path: str | Path) -> Run:
    """The run whose directory is `path`, or the pytest-benchmark JSON there. Raises UsageError where it is neither."""
    stored = read_stored(Path(path))
    return Run(stored.path, stored.lines, stored.machine, stored.notices, stored.config)


def laws_of(table: "pd.DataFrame") -> "pd.DataFrame":
    """The laws of anybody's tidy table, as `laws.csv` has them: a column `seq_len`, a cost (`time_s`, `peak_bytes`,
    `flops`, …), and as many of the other columns of `summary.csv` as there are. Raises UsageError for what is none."""
    return laws_table(fit_laws(lines_of(table)))
