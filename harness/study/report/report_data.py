"""What the reports of a run say, computed once for all of them, and the two short ones: the terminal and report.md."""

import re
import shlex
import textwrap
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from rich.console import Console

from harness.core.model.formatting import code, counted
from harness.core.model.layer_options import options_of, value_text
from harness.core.model.sweep_axes import SETTINGS
from harness.study.analyse import Analysis
from harness.study.claims.claims_table import NOT_CLAIMED
from harness.study.laws.crossovers import Crossover, layers_without_heads
from harness.study.laws.fitted_laws import laws_by_series
from harness.study.laws.roofline import points_above_roof

from . import figure_panels as parts
from .chart import too_wide
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
        facts = [_COMMIT.sub(r"\1", f"{before}{machine[name]}") for name, before in _ABOUT.items() if name in machine]
        self.about = [counted(len(lines), "case"), *facts]
        without = layers_without_heads(lines)
        self.settings = parts.panel_settings(lines)
        self.crossovers = parts.by_facet(findings.crossovers, without)
        self.points = parts.by_facet(findings.roof_points, without)
        laws = laws_by_series(findings.laws)
        self.overviews = overviews(self.settings, laws, self.crossovers)
        self.opening = self._opening()
        in_order = sorted(self.settings, key=lambda setting: setting is not self.opening)
        self.answers = costs.answers(in_order, self.crossovers, laws, baseline)
        self.apart = costs.apart_sentence(lines)
        # One value of an own axis is enough beside the tables over it.
        drawn = {setting.title for setting in parts.drawn_settings(self.settings)}
        self.drawn_answers = [answer for answer in self.answers if answer.title in drawn]
        in_answers = (line for answer in self.drawn_answers for line in answer.panel.lines)
        self.over_own_axes = costs.tables_over_own_axes(lines, in_answers)
        claimed = [claim.verdict for claim in findings.verdicts if claim.claimed != NOT_CLAIMED]
        self.verdicts = claims.verdict_count(claimed)
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
# The kind of sentence that comes before all others.
_FIRST = "refuted claim"


def show_answer(contents: Contents, console: Console) -> None:
    """Print the run in a few words and how good the measurement was, then the answer: tables, and a few sentences.

    Tables over own axes follow.
    """
    about = " · ".join(text for text in contents.about if not text.startswith("harness "))
    own_axes = contents.over_own_axes
    left = _more(len(own_axes), "own-axis table", _MOST_SETTINGS).text
    blocks: list[Sequence[Table | str]] = [
        [about, *contents.quality],
        *([answer.table] for answer in contents.drawn_answers),
        [] if contents.answers else ["Nothing was timed."],
        _sentences(contents, console.width),
        *([table] for table in own_axes[:_MOST_SETTINGS]),
        [*filter(None, [left])],
    ]
    first, *following = filter(None, blocks)
    show([*first, *(part for block in following for part in ("", *block))], console)


def _sentences(contents: Contents, width: int) -> list[str]:
    """The most important sentences, in the order: fastest, crossovers, claims, remarks about the numbers, failures.

    Of those that take too many lines of this width, some stay: see `_fitting`. Every reason of a failure stays, and so
    do times without a limit. Neither takes room from the others.
    """
    answers = [(f"{answer.title}: " if len(contents.answers) > 1 else "", answer) for answer in contents.answers]
    crossovers = [f"{title}{sentence}" for title, answer in answers for sentence in answer.crossovers]
    texts: dict[str, Sequence[str]] = {
        "fastest layer": [answer.fastest and f"{title}{answer.fastest}" for title, answer in answers],
        "crossover": [*crossovers, contents.apart],
        **{more.kind: more.sentences for more in contents.findings.more},
        "count of claims": [contents.verdicts],
        _FIRST: contents.refuted,
        "caution": [cautions.caution_summary(contents.lines, contents.above_roof)],
    }
    by_kind = {kind: [*filter(None, sentences)] for kind, sentences in texts.items()}
    chosen = _fitting(by_kind, width)
    shown = [
        *chain(*chosen.values()),
        *cautions.unchecked_times(contents.lines, contents.provenance.machine),
        *cautions.other_kernels(contents.lines),
        *contents.failed,
    ]
    left = {kind: len(sentences) - len(chosen[kind]) for kind, sentences in by_kind.items()}
    if any(left.values()):
        numbers = ", ".join(counted(number, kind) for kind, number in left.items() if number)
        text = f"Left out: {numbers}: see report.md."
        short = f"Left out: {counted(sum(left.values()), 'finding')}: see report.md."
        shown.append(text if len(text) <= width else short)
    return shown


def _fitting(by_kind: Mapping[str, Sequence[str]], width: int) -> dict[str, list[str]]:
    """The first sentences of each kind, in turn, that fit on a terminal of this width; a refuted claim comes first."""
    room = _MOST_LINES if width >= _NARROW else _MOST_NARROW_LINES
    if sum(_height(sentence, width) for sentence in chain(*by_kind.values())) > room:
        room -= 1  # for the line that counts the others
    chosen: dict[str, list[str]] = {kind: [] for kind in by_kind}
    waiting = {kind: deque(sentences) for kind, sentences in by_kind.items()}
    while any(waiting.values()):
        kind = min(filter(waiting.get, waiting), key=lambda kind: (len(chosen[kind]), kind != _FIRST))
        sentence = waiting[kind].popleft()
        if _height(sentence, width) <= room:
            room -= _height(sentence, width)
            chosen[kind].append(sentence)
    return chosen


def _height(sentence: str, width: int) -> int:
    """How many lines of this width the sentence takes."""
    return len(textwrap.wrap(sentence, width))


def next_steps(contents: Contents, run: Path, directory: Path, written: Sequence[str]) -> list[str]:
    """Where the report of the run is, which was written to `directory`, and a command to go on with."""
    tables = " ".join(name for name in written if name.endswith(".csv"))
    pictures = "; pictures: plots/" if "plots/" in written else ""
    every_n = " (every n)" if any(answer.by_size for answer in contents.answers) else ""
    lines = [f"Report: {directory / 'report.html'}{every_n}", f"Tables: {tables}{pictures}"]
    if more_precise := _more_precise(contents):
        lines.append(f"Next:   {more_precise}")
    elif contents.answers and contents.findings.laws:
        panel = (contents.drawn_answers or contents.answers)[0].panel
        timed = [line for line in panel.lines if line.time_s]
        largest = max(timed, key=lambda line: line.seq_len)
        n = largest.seq_len
        if all(line.seq_len == n for line in timed):
            return ["", *lines, f"Next:   measure more lengths, such as seq_len={n},{2 * n},{4 * n}"]
        varying = [
            axis for axis in (*SETTINGS, "batch_size") if len({getattr(line, axis) for line in contents.lines}) > 1
        ]
        sizes = f"seq_len={2 * n} d_model={panel.d_model} num_heads={panel.num_heads}"
        setting = [f"{axis}={getattr(largest, axis)}" for axis in varying if axis != "options"]
        if "options" in varying:  # a value of each option of any layer: the largest line's own comes last
            with_time = (line for line in (*contents.lines, largest) if line.time_s is not None)
            options = {name: value for line in with_time for name, value in options_of(line.options).items()}
            setting += [f"layer.{name}={value_text(value)}" for name, value in options.items()]
        command = "recommend" if len({line.impl for line in timed}) > 1 else "predict"
        typed = f"./{run}" if str(run).startswith("-") else str(run)
        lines.append(f"Next:   python -m harness {command} {shlex.quote(typed)} {sizes} {shlex.join(setting)}".rstrip())
    return ["", *lines]


# If a larger share of the times cannot be compared, measuring them again comes before anything else.
_MANY_TOO_WIDE = 0.25


def _more_precise(contents: Contents) -> str:
    """The command of the run with the next precision; empty if few intervals are too wide, or if there is no such."""
    wide = [too_wide(line.time_lo_s, line.time_hi_s) for line in contents.lines if line.time_s is not None]
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
    notes = []
    for answer in contents.answers[:_MOST_SETTINGS]:
        lede = [Sentence(sentence, "lede") for sentence in answer.sentences[:1]]
        yield Section(answer.title if several else "", [*lede, answer.sentences[1:], answer.table])
        notes.append(Sentence(answer.table.note(answer.table.columns), "note"))
    yield _more(len(contents.answers), "setting", _MOST_SETTINGS)
    yield from dict.fromkeys(notes) or [Sentence("Nothing was timed.")]
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


def _crossovers(crossovers: Sequence[Crossover]) -> list[str]:
    where = costs.setting_label((c.setting for c in crossovers), but="mode")
    several_batches = len({c.batch_size for c in crossovers}) > 1
    text = []
    for c in costs.possible_crossings(crossovers):
        if c.decided and c.metric == "time":
            batch = f"batch {c.batch_size}" if several_batches else ""
            place = [f"d = {c.d_model}", f"h = {c.num_heads}", c.setting.mode, *filter(None, [batch, where(c.setting)])]
            text.append(f"{costs.crossover_sentence(c)[:-1]} ({', '.join(place)}).")
    return text


def _listed(sentences: Sequence[str], noun: str) -> list[Part]:
    return [sentences[:_MOST], _more(len(sentences), noun)]


def _more(number: int, noun: str, most: int = _MOST) -> Sentence:
    return Sentence(f"… and {counted(number - most, f'more {noun}')}: see report.html." if number > most else "")
