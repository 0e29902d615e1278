"""What the reports of a run say, computed once for all of them, and the two short ones: the terminal and report.md."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console

from harness.analysis.analyse import Analysis
from harness.analysis.crossovers import Crossover, layers_without_heads
from harness.analysis.roofline import points_above_roof
from harness.formatting import code
from harness.report.document import Part, Section, Sentence, Table, markdown, show
from harness.report.figure_panels import by_facet, panel_settings
from harness.report.overview import overviews
from harness.report.provenance import Provenance, provenance_facts
from harness.report.text import cautions, claims, costs
from harness.results.columns import CaseResult

NOWHERE = Provenance("", {}, "", {})
# The facts about the machine that describe a run in a few words, and what precedes those unclear without their names.
_ABOUT = {"processor": "", "GPU": "", "torch": "torch ", "commit": "commit "}


class Contents:
    """The lines and findings of a run, with every text and table that more than one report shows.

    - `about`: the run in a few words. `machine`: facts about the machine, by name.
    - `settings`, `crossovers`, `points`: the panels, and the findings of each facet
    - `overviews`: time, memory and sequential depth of each setting at a glance
    - `verdicts`: how many claims were confirmed. `refuted`: a sentence for each refuted claim.
    - `quality`: how good the measurement was
    - `held_out`: how well cost models predict. `published`: a paper's section, or None.
    - `failures`: the failed cases. `failed`: the same in sentences. `cautions`: what to know about the other cases.
    - `above_roof`: measurements that contradict the calibration
    """

    def __init__(
        self,
        lines: Sequence[CaseResult],
        findings: Analysis,
        provenance: Provenance = NOWHERE,
        notices: Sequence[str] = (),
    ) -> None:
        """`findings` must be those of `lines`; `notices` are messages about the run's rows."""
        self.lines, self.findings, self.provenance, self.notices = lines, findings, provenance, notices
        self.machine = provenance_facts(provenance.machine)
        known = [f"{before}{self.machine[name]}" for name, before in _ABOUT.items() if name in self.machine]
        self.about = [f"{len(lines)} cases", *known]
        without = layers_without_heads(lines)
        self.settings = panel_settings(lines)
        self.crossovers = by_facet(findings.crossovers, without)
        self.points = by_facet(findings.roof_points, without)
        self.overviews = overviews(self.settings, findings.laws, self.crossovers)
        self.answers = costs.answers(self.settings, self.crossovers, findings.laws)
        self.verdicts = claims.verdict_count([one.verdict for one in findings.verdicts])
        self.refuted = claims.refuted_sentences(findings.verdicts)
        self.held_out = costs.held_out_sentences(findings.held_out)
        paper = findings.published
        hardware = self.machine.get("GPU") or self.machine.get("processor", "")
        self.published = claims.published_section(paper, hardware) if paper else None
        self.failures = cautions.failures_table(lines)
        self.failed = cautions.failure_remarks(lines)
        self.quality = cautions.quality_sentences(lines, provenance.machine)
        self.cautions = cautions.report_cautions(lines)
        self.above_roof = points_above_roof(findings.roof_points)


def show_answer(contents: Contents, console: Console) -> None:
    """Print how good the measurement was, a table and sentences for each setting, claims, predictions and remarks."""
    parts: list[Table | str] = [*contents.quality, *([""] if contents.quality else [])]
    for one in contents.answers:
        parts += (one.table, *one.sentences, "")
    if contents.findings.published:
        judged = contents.findings.published.claims
        parts += filter(None, (claims.claim_count(judged), *map(claims.claim_sentence, judged)))
    remarks = (contents.verdicts, *contents.refuted, *contents.held_out, *contents.cautions, *contents.failed)
    show([*parts, *filter(None, remarks)], console)


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
    if contents.published:
        yield contents.published
    several = len(contents.answers) > 1
    for one in contents.answers[:_MOST_SETTINGS]:
        first, *others = one.sentences or ("",)
        yield Section(one.title if several else "", [Sentence(first, "lede"), others, one.table])
    if len(contents.answers) > _MOST_SETTINGS:
        yield Sentence(f"… and {len(contents.answers) - _MOST_SETTINGS} more settings: see report.html.")
    yield Sentence(costs.SCALING_EXPONENT, "note") if contents.answers else Sentence("Nothing was timed.")
    overview = claims.claims_overview(contents.findings.verdicts)
    yield Section("Claims", [Sentence(contents.verdicts), overview, contents.refuted[:_MOST]])
    yield from map(Sentence, contents.held_out)
    yield _listed("Crossovers", _crossovers(contents.findings.crossovers))
    left = _more(len(contents.failures.rows), "kinds of failure")
    yield Section("Failures", [replace(contents.failures, rows=contents.failures.rows[:_MOST]), left])
    yield _listed("What to know", [*contents.cautions, *contents.above_roof])


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


def _listed(heading: str, sentences: Sequence[str]) -> Section:
    return Section(heading, [sentences[:_MOST], _more(len(sentences), "of them")])


def _more(number: int, of_what: str) -> Sentence:
    return Sentence(f"… and {number - _MOST} more {of_what}: see report.html." if number > _MOST else "")
