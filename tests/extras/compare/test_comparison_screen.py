"""What `compare` concludes: on the terminal, and as Markdown for a pull request."""

from dataclasses import replace

from extras.compare.comparisons import CASE, blocks, comparison, line, of_lines
from screens.text_file import printed, terminal, titled
from syrupy import SnapshotAssertion

from harness.extras.compare.report import ADVICE, Comparison, outcomes_of, show_comparison
from harness.study.check.reporters import GateReport

FAILED = line(CASE, "error", "RuntimeError: no such luck")
COMPARISONS = {
    "equivalent, slower, faster, undecided": comparison(
        [blocks(1.0), blocks(1.2, again=1.2), blocks(0.8, again=0.8), blocks(1.03)]
    ),
    "slower once, too few blocks, none": comparison(
        [blocks(1.0), blocks(1.2, again=1.0), blocks(1.2, number=3), blocks(1.0, number=0)]
    ),
    "given up": comparison([blocks(1.0), replace(blocks(1.03), given_up=True)]),
    "another amount of work and memory": of_lines(line(CASE), line(CASE, flops=3000, peak_bytes=5000), blocks(1.0)),
    "an amount that is not known": of_lines(line(CASE, flops=None), line(CASE), blocks(1.0)),
    "the control failed": comparison([blocks(1.0), blocks(1.2, again=1.2)], control=blocks(1.2)),
    "the control was not measured": comparison(
        [blocks(1.0)], control=blocks(1.0, number=0, failure="base: oom: too large")
    ),
    "a trial was killed": comparison([blocks(1.0), blocks(1.0, failure="head: killed: by SIGKILL")]),
    "the head fails": of_lines(line(CASE), FAILED, None),
    "both fail": of_lines(FAILED, FAILED, None),
    "nothing was measured": of_lines(None, None, None),
}


def compared(found: Comparison) -> str:
    """What `compare` prints, then what it writes for a pull request."""
    console = terminal()
    show_comparison("compare [b]x[/]", found, console)
    report = GateReport("compare x", outcomes_of(found), advice=ADVICE)
    return f"{printed(console)}\nexit status {report.exit_status}\n\n{report.as_markdown()}"


def test_a_comparison_is_a_table_sentences_and_an_outcome(snapshot: SnapshotAssertion) -> None:
    assert titled({title: compared(found) for title, found in COMPARISONS.items()}) == snapshot
