"""What the reports of a run say, computed once for all of them, and the two short ones: the terminal and report.md."""

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from harness.core.model.formatting import code, counted
from harness.core.model.layer_options import NO_OPTIONS
from harness.core.model.sweep_axes import SETTINGS
from harness.study.analyse import Analysis
from harness.study.claims.claims_table import NOT_CLAIMED
from harness.study.laws.crossovers import Crossover, layers_without_heads
from harness.study.laws.roofline import points_above_roof

from . import figure_panels as parts
from .document import Part, Section, Sentence, Table, markdown, show
from .figure_panels import Lines
from .overview import overviews
from .provenance import Provenance, provenance_facts
from .text import cautions, claims, cost_models, costs

NOWHERE = Provenance("", {}, "", {})
# The facts about the machine that describe a run in a few words, and what precedes those unclear without their names.
_ABOUT = {"processor": "", "GPU": "", "torch": "torch ", "environments": "environments ", "harness": "harness "}


# A commit is 40 digits; these are enough to find it.
_COMMIT = re.compile(r"\b([0-9a-f]{10})[0-9a-f]{30}\b")


class Contents:
    """The lines and findings of a run, with every text and table that more than one report shows.

    - `about`: the run in a few words. `machine`: facts about the machine, by name.
    - `settings`, `crossovers`, `points`: the panels, and the findings of each facet
    - `opening`: the setting that every report begins with; None without cases
    - `overviews`: time, memory and sequential depth of each setting at a glance
    - `apart`: which layers have no crossovers, because their own axes differ; empty if none
    - `drawn_answers`: those of `answers` whose settings are drawn
    - `over_own_axes`: tables of times over own axes that vary, those with a case of a drawn answer first
    - `verdicts`: how many claims were confirmed. `refuted`: a sentence for each refuted claim.
    - `quality`: how good the measurement was
    - `held_out`: how well cost models predict. `more`: sections of extras.
    - `failures`: the failed cases. `failed`: the same in sentences. `cautions`: what to know about the other cases.
    - `above_roof`: measurements that contradict the calibration
    """

    def __init__(
        self,
        lines: Lines,
        findings: Analysis,
        provenance: Provenance = NOWHERE,
        notices: Sequence[str] = (),
        baseline: str = "",
    ) -> None:
        """`findings` must be those of `lines`. `notices` are messages about the run's rows.

        `baseline` is the layer to which times are relative, if any.
        """
        self.lines, self.findings, self.provenance, self.notices = lines, findings, provenance, notices
        machine = self.machine = provenance_facts(provenance.machine)
        known = [_COMMIT.sub(r"\1", f"{before}{machine[name]}") for name, before in _ABOUT.items() if name in machine]
        self.about = [counted(len(lines), "case"), *known]
        without = layers_without_heads(lines)
        self.settings = parts.panel_settings(lines)
        self.crossovers = parts.by_facet(findings.crossovers, without)
        self.points = parts.by_facet(findings.roof_points, without)
        laws = costs.laws_by_series(findings.laws)
        self.overviews = overviews(self.settings, laws, self.crossovers)
        self.opening = self._opening()
        in_order = sorted(self.settings, key=lambda setting: setting is not self.opening)
        self.answers = costs.answers(in_order, self.crossovers, laws, baseline)
        self.apart = costs.apart_sentence(lines)
        # One value of an own axis is enough beside the tables over it.
        drawn = {setting.title for setting in parts.drawn_settings(self.settings)}
        self.drawn_answers = [one for one in self.answers if one.title in drawn]
        in_answers = (line for one in self.drawn_answers for line in one.panel.lines)
        self.over_own_axes = costs.tables_over_own_axes(lines, in_answers)
        self.verdicts = claims.verdict_count([one.verdict for one in findings.verdicts if one.claimed != NOT_CLAIMED])
        self.refuted = claims.refuted_sentences(findings.verdicts)
        self.held_out = cost_models.held_out_sentences(findings.held_out)
        hardware = self.machine.get("GPU") or self.machine.get("processor", "")
        self.more = [more.section(hardware) for more in findings.more]
        self.failures = cautions.failures_table(lines)
        self.failed = cautions.failure_remarks(lines)
        self.quality = cautions.quality_sentences(lines, provenance.machine, provenance.precision, provenance.target)
        self.cautions = cautions.report_cautions(lines, provenance.machine)
        self.above_roof = points_above_roof(findings.roof_points)

    def _opening(self) -> parts.PanelSetting | None:
        """The setting with the most timed cases. Among equals, one with a roofline, then the first of the grid."""

        def rank(setting: parts.PanelSetting) -> tuple[int, bool, list[int]]:
            has_points = any(parts.of_panel(self.points, setting, panel) for panel in setting.panels)
            has_roof = has_points and parts.roof_of_setting(self.findings.roofs, setting) is not None
            orders = [(list(self.provenance.grid.get(axis, ())), value) for axis, value in setting.at.items()]
            return setting.timed, has_roof, [-order.index(value) if value in order else 0 for order, value in orders]

        return max(parts.drawn_settings(self.settings), key=rank, default=None)


# The most lines of sentences below the tables of a terminal, and of a narrow one. The reports have all of them.
_MOST_LINES, _MOST_NARROW_LINES, _NARROW = 6, 9, 80


def show_answer(contents: Contents, console: Console) -> None:
    """Print the run in a few words and how good the measurement was, then the answer: tables, and a few sentences.

    Tables over own axes follow.
    """
    about = " · ".join(text for text in contents.about if not text.startswith("harness "))
    shown: list[Table | str] = [about, *contents.quality]
    for one in contents.drawn_answers:
        shown += ("", one.table)
    if not contents.answers:
        shown += ("", "Nothing was timed.")
    sentences = _sentences(contents, console.width)
    shown += ("", *sentences) if sentences else ()
    for table in contents.over_own_axes[:_MOST_SETTINGS]:
        shown += ("", table)
    if more := _more(len(contents.over_own_axes), "own-axis table", _MOST_SETTINGS).text:
        shown += ("", more)
    show(shown, console)


def _sentences(contents: Contents, width: int) -> list[str]:
    """The most important sentences, in the order: fastest, crossovers, claims, remarks about the numbers, failures.

    If they take too many lines of this width, the first of each kind that fit stay, a refuted claim before all others.
    Every reason of a failure stays, and so do times without a limit. Neither takes room from the others.
    """
    answers = [(f"{one.title}: " if len(contents.answers) > 1 else "", one) for one in contents.answers]
    by_kind = {
        "fastest layer": [f"{title}{one.fastest}" for title, one in answers if one.fastest],
        "crossover": [f"{title}{sentence}" for title, one in answers for sentence in one.crossovers]
        + [*filter(None, [contents.apart])],
        **{more.kind: more.sentences for more in contents.findings.more},
        "count of claims": [*filter(None, [contents.verdicts])],
        "refuted claim": contents.refuted,
        "caution": [*filter(None, [cautions.caution_summary(contents.lines, contents.above_roof)])],
    }
    kinds = list(by_kind.values())
    lines = [[len(textwrap.wrap(sentence, width)) for sentence in kind] for kind in kinds]
    room = _MOST_LINES if width >= _NARROW else _MOST_NARROW_LINES
    if sum(map(sum, lines)) > room:
        room -= 1  # for the line that counts the others
    chosen: list[list[str]] = [[] for _ in kinds]
    waiting = [at for at, kind in enumerate(kinds) if kind]
    while waiting:
        at = min(waiting, key=lambda one: (len(chosen[one]), kinds[one] is not contents.refuted))
        sentence, needed = kinds[at][-len(lines[at])], lines[at].pop(0)
        if needed <= room:
            room -= needed
            chosen[at].append(sentence)
        if not lines[at]:
            waiting.remove(at)
    unchecked = cautions.unchecked_times(contents.lines, contents.provenance.machine)
    unchecked += cautions.other_kernels(contents.lines)
    shown = [*(sentence for of_kind in chosen for sentence in of_kind), *unchecked, *contents.failed]
    left = {kind: len(found) - len(one) for (kind, found), one in zip(by_kind.items(), chosen, strict=True)}
    return [*shown, _left_out(left, width)] if any(left.values()) else shown


def _left_out(number_of: Mapping[str, int], width: int) -> str:
    """How many sentences of each kind a terminal leaves out, in one line; the number of all if that is too long."""
    numbers = [counted(number, kind) for kind, number in number_of.items() if number]
    text = f"Left out: {', '.join(numbers)}: see report.md."
    return text if len(text) <= width else f"Left out: {counted(sum(number_of.values()), 'finding')}: see report.md."


def next_steps(contents: Contents, run: Path, directory: Path, written: Sequence[str]) -> list[str]:
    """Where the report of the run is, which was written to `directory`, and a command to go on with."""
    tables = " ".join(name for name in written if name.endswith(".csv"))
    lines = [
        f"Report: {directory / 'report.html'}" + (" (every n)" if any(one.by_size for one in contents.answers) else ""),
        f"Tables: {tables}" + ("; pictures: plots/" if "plots/" in written else ""),
    ]
    if more_precise := _more_precise(contents):
        lines.append(f"Next:   {more_precise}")
    elif contents.answers and contents.findings.laws:
        panel = (contents.drawn_answers or contents.answers)[0].panel
        largest = max(panel.lines, key=lambda line: line.seq_len)
        varying = [axis for axis in SETTINGS if len({getattr(line, axis) for line in contents.lines}) > 1]
        sizes = f"seq_len={2 * largest.seq_len} d_model={panel.d_model} num_heads={panel.num_heads}"
        others = [f"{axis}={getattr(largest, axis)}" for axis in varying if axis != "options"]
        if "options" in varying:  # a value of each option of any layer: the largest line's own comes last
            timed = (line for line in (*contents.lines, largest) if line.time_s is not None)
            parts_of = (part for line in timed for part in line.options.split("+"))
            options = dict(part.split("=", 1) for part in parts_of if part != NO_OPTIONS)
            others += [f"layer.{name}={value}" for name, value in options.items()]
        impls = {line.impl for line in panel.lines if line.time_s}
        command = "recommend" if len(impls) > 1 else "predict"
        typed = f"./{run}" if str(run).startswith("-") else str(run)
        lines.append(f"Next:   python -m harness {command} {shlex.quote(typed)} {sizes} {shlex.join(others)}".rstrip())
    return ["", *lines]


# If a larger share of the times cannot be compared, measuring them again comes before anything else.
_MANY_TOO_WIDE = 0.25


def _more_precise(contents: Contents) -> str:
    """The command of the run with the next precision; empty if few intervals are too wide, or if there is no such."""
    wide = [parts.too_wide(line.time_lo_s, line.time_hi_s) for line in contents.lines if line.time_s is not None]
    origin = contents.provenance
    stricter = cautions.stricter_precisions(origin.precision)
    if not origin.command or not stricter or sum(wide) <= _MANY_TOO_WIDE * len(wide):
        return ""
    options = [option for option in shlex.split(origin.command) if not option.startswith("precision=")]
    return shlex.join([*options, f"precision={stricter[0]}"])


# The most entries of one kind in report.md; report.html has more.
_MOST = 12
_MOST_SETTINGS = 4


def report_markdown(contents: Contents) -> str:
    """Return the text of report.md: the answer, short enough for a pull request."""
    text = markdown(Section(contents.provenance.name, _short(contents)))
    return f"{text}\nAgain: {code(contents.provenance.command)}\n" if contents.provenance.command else text


def _short(contents: Contents) -> Iterator[Part]:
    yield Sentence("; ".join(contents.about) + ".")
    yield from map(Sentence, contents.quality)
    yield from contents.more
    several = len(contents.answers) > 1
    for one in contents.answers[:_MOST_SETTINGS]:
        first, *others = one.sentences or ("",)
        yield Section(one.title if several else "", [Sentence(first, "lede"), others, one.table])
    yield _more(len(contents.answers), "setting", _MOST_SETTINGS)
    tables = [one.table for one in contents.answers[:_MOST_SETTINGS]]
    yield from (Sentence(note, "note") for note in dict.fromkeys(table.note(table.columns) for table in tables))
    if not tables:
        yield Sentence("Nothing was timed.")
    overview = claims.claims_overview(contents.findings.verdicts)
    yield Section("Claims", [Sentence(contents.verdicts), overview, contents.refuted[:_MOST]])
    yield from map(Sentence, contents.held_out)
    crossings = _crossovers(contents.findings.crossovers)
    joint = Sentence(costs.CROSSOVER_INTERVALS if crossings else "")
    yield Section("Crossovers", [joint, *_listed(crossings, "crossover"), Sentence(contents.apart)])
    left = _more(len(contents.over_own_axes), "own-axis table", _MOST_SETTINGS)
    yield Section("Own axes of layers", [*contents.over_own_axes[:_MOST_SETTINGS], left])
    elsewhere = "The tables of every n of the other settings are in report.html." if several else ""
    yield Section("Every n", [*contents.answers[0].by_size, Sentence(elsewhere)] if contents.answers else [])
    left = _more(len(contents.failures.rows), "failure")
    yield Section("Failures", [replace(contents.failures, rows=contents.failures.rows[:_MOST]), left])
    yield Section("What to know", _listed([*contents.cautions, *contents.above_roof], "remark"))


def _crossovers(found: Sequence[Crossover]) -> list[str]:
    where = costs.setting_label((c.setting for c in found), but="mode")
    several_batches = len({c.batch_size for c in found}) > 1
    text = []
    for c in costs.possible_crossings(found):
        if c.decided and c.metric == "time":
            batch = f"batch {c.batch_size}" if several_batches else ""
            place = [f"d = {c.d_model}", f"h = {c.num_heads}", c.setting.mode, *filter(None, [batch, where(c.setting)])]
            text.append(f"{costs.crossover_sentence(c)[:-1]} ({', '.join(place)}).")
    return text


def _listed(sentences: Sequence[str], noun: str) -> list[Part]:
    return [sentences[:_MOST], _more(len(sentences), noun)]


def _more(number: int, noun: str, most: int = _MOST) -> Sentence:
    return Sentence(f"… and {counted(number - most, f'more {noun}')}: see report.html." if number > most else "")
