"""A run in a notebook: `run = harness.load("results/latest")`, then `run.table`, `run.laws`, `run.plot.time()`."""

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.config.key_value_options import long_names
from harness.core.model.errors import UsageError
from harness.core.model.formatting import counted
from harness.core.results.columns import CaseResult, lines_of_table, table
from harness.core.results.stored_run import StoredRun, read_run_directory
from harness.study.analyse import Analysis, analyse
from harness.study.claims.claims_table import claims_table
from harness.study.complete_lines import complete_lines
from harness.study.laws import fitted_laws
from harness.study.laws.crossovers import crossovers_table, layers_without_heads
from harness.study.laws.roofline import why_no_roof
from harness.study.report.chart import looks_of_run
from harness.study.report.figure_panels import DEPTH, MEMORY, TIME, Cost, PanelSetting, by_facet, panel_settings
from harness.study.report.overview import overview

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Run(StoredRun):
    """A run measured earlier. Reading it measures nothing and writes nothing."""

    def __repr__(self) -> str:
        impls = dict.fromkeys(line.impl for line in self.lines)
        return f"<run {self.path}: {counted(len(self.lines), 'case')} of {', '.join(impls)}>"

    @cached_property
    def table(self) -> "pd.DataFrame":
        """`summary.csv`: one row per case."""
        return table(self.lines)

    @cached_property
    def findings(self) -> Analysis:
        """All findings of the run, as objects."""
        return analyse(self.lines, self.machine, self.config)

    @cached_property
    def laws(self) -> "pd.DataFrame":
        """`laws.csv`: the cost models of each layer's time, memory, FLOPs and sequential depth."""
        return fitted_laws.laws_table(self.findings.laws)

    @cached_property
    def claims(self) -> "pd.DataFrame":
        """`claims.csv`: the claims of theory and their verdicts."""
        return claims_table(self.findings.verdicts)

    @cached_property
    def crossovers(self) -> "pd.DataFrame":
        """`crossovers.csv`: the n from which one layer costs more than another."""
        return crossovers_table(self.findings.crossovers)

    @cached_property
    def published(self) -> "pd.DataFrame":
        """`published.csv`: a paper's published figures beside the measured ones; empty without a paper."""
        import pandas as pd

        for more in self.findings.more:
            if "published.csv" in more.tables:
                return more.tables["published.csv"]
        return pd.DataFrame()

    def at(self, **wanted: Any) -> "pd.DataFrame":
        """The rows of `table` at these sizes and settings: `run.at(num_heads=8, seq_len=2048)`.

        Layers without heads belong to every number of heads that other layers have.
        """
        return table(self.lines_at(**wanted))

    def lines_at(self, **wanted: Any) -> list[CaseResult]:
        """The lines of `at`. Raises UsageError for a name that is no setting."""
        wanted = long_names(wanted)
        unknown = wanted.keys() - {name for line in self.lines[:1] for name in vars(line)}
        if unknown:
            raise UsageError(f"no setting {', '.join(sorted(unknown))}: mode, dtype, device, threads, …")
        heads, without = wanted.get("num_heads"), layers_without_heads(self.lines)
        lines = self.lines
        if heads in {line.num_heads for line in lines if line.impl not in without}:
            lines = [replace(line, num_heads=heads) if line.impl in without else line for line in lines]
        return [line for line in lines if all(getattr(line, name) == value for name, value in wanted.items())]

    @property
    def plot(self) -> "Plots":
        """The run's plots."""
        return Plots(self)


@dataclass(frozen=True)
class Plots:
    """The plots of plots/, drawn on demand. Each setting (mode, dtype, threads, …) has a plot of its own."""

    _run: Run

    def overview(self, **setting: Any) -> "Picture":
        """Time, peak memory and sequential depth against n for one (d, h), side by side.

        `setting` selects one of several settings, or another (d, h) than the fullest: `mode="train"`, `d_model=128`.
        """
        from harness.study.report.plots.cost_overview import cost_overview

        laws = fitted_laws.laws_by_series(self._run.findings.laws)
        crossed = by_facet(self._run.findings.crossovers, layers_without_heads(self._run.lines))

        def draw(panel: PanelSetting) -> "Figure | None":
            costs = overview(panel, laws, crossed)
            return cost_overview(costs) if costs is not None else None

        return self._picture(draw, setting)

    def time(self, **setting: Any) -> "Picture":
        """Time per call against n. `setting` selects one of several settings: `mode="train"`, `num_heads=8`."""
        return self._curves(TIME, setting)

    def memory(self, **setting: Any) -> "Picture":
        """Peak memory per call against n."""
        return self._curves(MEMORY, setting)

    def depth(self, **setting: Any) -> "Picture":
        """Sequential depth against n: the length of the longest chain of operations that wait for each other."""
        return self._curves(DEPTH, setting)

    def speedup(self, baseline: str = "attention.naive", **setting: Any) -> "Picture":
        """How many times as fast as the `baseline` each layer is."""
        from harness.study.report.plots.all_plots import speedup

        return self._picture(lambda panel: speedup(panel, baseline), setting)

    def accuracy(self, **setting: Any) -> "Picture":
        """The error of each case against its time, and the Pareto front at the largest n."""
        from harness.study.report.plots.all_plots import accuracy

        return self._picture(accuracy, setting)

    def roofline(self, **setting: Any) -> "Picture":
        """Each case against the machine's limits. Raises UsageError if the machine has no measured roof."""
        from harness.study.report.plots.all_plots import roofline

        findings = self._run.findings
        if not findings.roofs:
            raise UsageError(why_no_roof(self._run.machine))
        return self._picture(lambda panel: roofline(panel, findings.roofs, findings.roof_points), setting)

    def _curves(self, cost: Cost, setting: dict[str, Any]) -> "Picture":
        from harness.study.report.plots.curves import curves

        return self._picture(lambda panel: curves(panel, cost), setting)

    def _picture(self, draw: "Callable[[PanelSetting], Figure | None]", setting: dict[str, Any]) -> "Picture":
        looks = looks_of_run(self._run.lines)
        every = panel_settings(self._run.lines_at(**setting), looks)
        if not every:
            raise UsageError("nothing was measured there")
        figure = draw(every[0])
        if figure is None:
            raise UsageError("there is nothing to draw")
        if len(every) > 1:
            titles = "; ".join(panel.title for panel in every[1:])
            figure.text(0.01, 0.005, f"there is more: {titles}", fontsize=7, color="0.5")
        return Picture(figure)


@dataclass(frozen=True)
class Picture:
    """A figure that a notebook displays by itself. `figure` is the matplotlib figure."""

    figure: "Figure"

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()

    def save(self, path: str | Path) -> None:
        """Write the figure to a file, in the format that the file's suffix names."""
        self.figure.savefig(path)


def load(path: str | Path) -> Run:
    """Read the run directory or the pytest-benchmark JSON file at `path`. Raises UsageError if it is neither."""
    stored = read_run_directory(Path(path))
    lines = complete_lines(stored.lines, stored.machine, stored.config.get("baseline"))[0]
    return Run(**{**vars(stored), "lines": lines})


def laws_of(table: "pd.DataFrame") -> "pd.DataFrame":
    """Fit cost models to any tidy table and return them in the columns of `laws.csv`.

    `table` needs a column `seq_len` and one cost (`time_s`, `peak_bytes`, `flops`, …). Other columns of `summary.csv`
    are used if present. Raises UsageError if `table` is not of this form."""
    return fitted_laws.laws_table(fitted_laws.fit_laws(lines_of_table(table)))


def plots_of(table: "pd.DataFrame") -> Plots:
    """The plots of any tidy table: `plots_of(table).overview()`.

    `table` has the columns that `laws_of` needs. Raises UsageError if it is not of this form."""
    return Plots(Run(Path("table"), lines_of_table(table), [], {}, {}))
