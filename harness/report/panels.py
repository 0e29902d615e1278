"""How a run's lines are divided among plots: a figure for each setting, a panel for each (d, h)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.case import SETTINGS
from harness.findings.crossovers import headless
from harness.summary import Line

SETTING_AXES = ("batch_size", *SETTINGS)

# The most widths, and the most numbers of heads, that one plot has room for.
MOST_SHOWN = 4


@dataclass(frozen=True)
class Panel:
    """Lines to compare with each other: same setting, width and heads, different layer and n."""

    d_model: int
    num_heads: int
    lines: tuple[Line, ...]

    def impls(self) -> list[str]:
        """The layers present, in order of appearance."""
        return list(dict.fromkeys(line.impl for line in self.lines))

    def of(self, impl: str) -> list[Line]:
        """The lines of one layer, in ascending n."""
        return sorted((line for line in self.lines if line.impl == impl), key=lambda line: line.seq_len)


@dataclass(frozen=True)
class Setting:
    """The axes that all cases of a figure share. `name` has only those in which the run's settings differ."""

    values: tuple
    name: str
    title: str
    panels: tuple[Panel, ...]


def settings(lines: Iterable[Line]) -> list[Setting]:
    """Group the run's lines by setting and divide each setting into panels."""
    groups: dict[tuple, list[Line]] = {}
    for line in lines:
        groups.setdefault(tuple(getattr(line, axis) for axis in SETTING_AXES), []).append(line)
    varying = [i for i in range(len(SETTING_AXES)) if len({values[i] for values in groups}) > 1]
    return [
        Setting(values, _name(values, varying), _title(values), tuple(_panels(members)))
        for values, members in sorted(groups.items())
    ]


def readable(setting: Setting, most: int = MOST_SHOWN) -> Setting:
    """Reduce a setting to what one plot can show: at most `most` widths and `most` numbers of heads.

    The first and the last of each stay. The title then gives the number of panels kept and of all panels. The page and
    the tables show every panel.
    """
    widths = sorted({panel.d_model for panel in setting.panels})
    heads = sorted({panel.num_heads for panel in setting.panels})
    some_widths, some_heads = _spread(widths, most), _spread(heads, most)
    if (some_widths, some_heads) == (widths, heads):
        return setting
    kept = tuple(p for p in setting.panels if p.d_model in some_widths and p.num_heads in some_heads)
    left_out = f" ({len(kept)} of {len(setting.panels)} panels)"
    return replace(setting, title=setting.title + left_out, panels=kept)


def _spread(values: Sequence[int], most: int) -> list[int]:
    """At most `most` of the ascending values, evenly spaced from the first to the last."""
    if len(values) <= most:
        return list(values)
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def _name(values: Sequence, varying: Sequence[int]) -> str:
    """`train_threads2`: safe in a file name; the name of its axis precedes a number."""
    return "_".join(f"{SETTING_AXES[i]}{v}" if isinstance(v := values[i], int | float) else str(v) for i in varying)


def _title(values: Sequence) -> str:
    batch_size, mode, dtype, device, threads, allocator, mask, real_share, source_len = values
    where = f"{device}, {threads} thread{'s' if threads > 1 else ''}" if device == "cpu" else device
    kept = "" if allocator == "default" else f", {allocator} allocator"
    masked = {"none": "", "causal": ", causal", "padding": f", {100 * real_share:.0f} % of the tokens real"}[mask]
    source = f", source of {source_len}" if source_len else ""
    return f"{mode}{masked}{source}, {dtype}, batch {batch_size}, {where}{kept}"


def _panels(lines: Sequence[Line]) -> list[Panel]:
    """A panel for each (d, h). A layer without heads is in every panel of its d, beside the layers with heads."""
    without = headless(lines)
    with_heads = [line for line in lines if line.impl not in without] or list(lines)
    result = []
    for d in sorted({line.d_model for line in lines}):
        for h in sorted({line.num_heads for line in with_heads if line.d_model == d} or {1}):
            # `replace`: each panel shows the lines without heads as if measured at its h.
            own = [line for line in with_heads if (line.d_model, line.num_heads) == (d, h)]
            others = [replace(line, num_heads=h) for line in lines if line.impl in without and line.d_model == d]
            members = sorted({*own, *others}, key=lambda line: (line.impl, line.seq_len))
            result.append(Panel(d, h, tuple(members)))
    return result
