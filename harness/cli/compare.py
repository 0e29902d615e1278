"""The command `compare impl=A,B` or `compare ref=<git ref>`: which side is slower or costs more.

The two sides are two layers of one tree, or the same layers at two commits. Both are verified and their facts are taken
before any timing.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli import INTERRUPTED
from harness.cli.options import Parser
from harness.gate.publish import add_outputs, check_outputs, publish_outcomes, write_outputs
from harness.store.directory import RESULTS

if TYPE_CHECKING:
    from rich.console import Console

    from harness.cli.compare_sides import ComparisonRequest
    from harness.gate.check_rules import Outcome
    from harness.gate.compare import Comparison


_EPILOG = """\
what is compared:
  impl=A,B                               layer B with layer A, at every size
  ref=main                               the layers of the working tree with those of a branch, tag or commit, which is
                                         checked out beside it; impl=… chooses layers, including your own

settings:
  seq_len d_model num_heads … kv_len     the axes, as in sweep; allocator=steady by default, which times no page faults
  preset=… shape=… device=… precision=…  as in sweep; of the precision, only timeout_s applies
  threshold=0.03                         the smallest change that matters
  blocks=120                             a case that is undecided after 120 blocks stays undecided; a slower or faster
                                         case may get as many again
  minutes=20                             end the timing after 20 minutes; the second half confirms slower and faster
                                         cases; a case that is undecided by then stays undecided
  out=DIR  seed=N  memory_limit=8GiB  compile_timeout_s=900

Each case ends as slower, faster, equivalent or undecided. Slower and faster cases are measured a second time in new
processes. Each comparison also measures some cases against themselves, as a control. If the control shows a
difference, nothing is concluded.

examples:
  python -m harness compare impl=attention.naive,attention.fused seq_len=256,1024
  python -m harness compare ref=origin/main impl=my.module:MyLayer seq_len=128,512 --markdown comparison.md

exit status: 0 nothing is slower, nor takes more memory or FLOPs; 1 something does; 2 usage error; 3 something could
not be measured, or the control failed; 130 interrupted
"""


def run_compare(arguments: Sequence[str]) -> int:
    """Run the comparison and return its exit status."""
    parser = Parser("compare", "Measure two layers, or a layer at two commits, side by side.", _EPILOG)
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="a directory of your own settings, beside conf/")
    add_outputs(parser)
    options = parser.parse_intermixed_args(arguments)
    # Imported here so that `--help` does not load the code that measures.
    from rich.console import Console

    from harness import store
    from harness.cli.compare_sides import read_comparison_request

    check_outputs(options)
    asked = read_comparison_request(options.overrides, options.config_dir)
    out = asked.config.out or RESULTS / time.strftime("compare_%Y-%m-%d_%H-%M-%S")
    store.check_new(out)
    console = Console()
    try:
        comparison, properties, lacking = _compare(asked, out, console)
    except KeyboardInterrupt:
        print(f"harness: interrupted; {out} holds the measurements so far, and nothing is concluded", file=sys.stderr)
        return INTERRUPTED
    return _report_comparison(options, asked.title, out, comparison, properties, lacking, console)


def _compare(
    asked: "ComparisonRequest", out: Path, console: "Console"
) -> "tuple[Comparison, dict[str, str], list[Outcome]]":
    """Measure both sides and judge. Returns the comparison, properties of the run, and what could not be compared."""
    from harness.cli.compare_sides import pair_cases, prepare_comparison, prepare_sides_of
    from harness.gate.compare import compare_sides
    from harness.measure.interleaved import BlockLog, Pair, Timing, time_pairs
    from harness.measure.progress import PairScreen
    from harness.stats.paired_verdicts import MeasuredBlocks
    from harness.store import Lock

    with ExitStack() as stack:
        found = stack.enter_context(prepare_sides_of(asked, out))
        pairs = pair_cases(asked, found)
        stack.enter_context(Lock(out))
        both = prepare_comparison(pairs, found, asked, out, console)
        timed = [number for number, (a, b) in enumerate(pairs) if a in both.base_open and b in both.head_open]
        measured = MeasuredBlocks([], {})
        if timed:
            log = BlockLog(out / "blocks.jsonl")
            stack.callback(log.close)
            chosen = [Pair(*pairs[number]) for number in timed]
            screen = PairScreen(len(chosen), console)
            measured = time_pairs(
                chosen, found.sides, asked.rules, Timing(), asked.config.seed, log.write, screen, asked.limit_s
            )
    comparison = compare_sides(pairs, timed, measured, both.base, both.head, asked.rules)
    return comparison, {**found.properties, "torch": str(both.torch)}, found.lacking


def _report_comparison(
    options: argparse.Namespace,
    title: str,
    out: Path,
    comparison: "Comparison",
    properties: dict[str, str],
    lacking: "list[Outcome]",
    console: "Console",
) -> int:
    from harness.files import to_csv
    from harness.formatting import printable
    from harness.gate.check_rules import exit_status
    from harness.gate.compare import comparison_table, outcomes_of
    from harness.gate.reporters import comparison_sentences, show_comparison

    (out / "comparison.csv").write_text(to_csv(comparison_table(comparison)), encoding="utf-8")
    show_comparison(title, comparison, console)
    for one in lacking:
        console.out(printable(f"{one.subject}: {one.reason}."), highlight=False)
    outcomes, said = [*outcomes_of(comparison), *lacking], list(comparison_sentences(comparison))
    write_outputs(out / "comparison", title, outcomes, said, properties)
    publish_outcomes(options, title, outcomes, said, properties)
    console.out(
        f"{out}: comparison.csv, .md, .xml, .json, blocks.jsonl; a run of each side in base/, head/", highlight=False
    )
    return exit_status(outcomes)
