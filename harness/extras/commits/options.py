"""The options and `--help` of `bisect` and `history`. Importing this file loads nothing that measures."""

import argparse
from pathlib import Path

from harness.cli.parsers import add_out, add_overrides


def _bisect(parser: argparse.ArgumentParser) -> None:
    """Find the commit at which a layer's FLOPs, memory or depth changed or, if no fact differs, its time.

    Give one value of each axis. threshold=0.03 is the smallest change of the time; minutes=10 limits all timing: the
    control (GOOD against itself), both ends, the search, and the commit that was found beside the one before.

    examples:
      python -m harness bisect v1.0..main impl=my.module:MyLayer seq_len=512 d_model=64 num_heads=4 threads=1

    exit status: 0 found, or nothing to look for; 2 usage error; 3 undecided, or not measurable; 130 interrupted
    """
    parser.add_argument("span", metavar="GOOD..BAD", help="two commits; the first may not have the change")
    add_overrides(parser)
    add_out(parser, "where to write, or to continue; default: results/bisect_<time>", kind=str)
    parser.add_argument("--time", action="store_true", help="search for a change of the time even if a fact differs")


def _history(parser: argparse.ArgumentParser) -> None:
    """Record what layers cost commit by commit in a file, and write that history as one HTML page.

    history add FILE [COMMIT | FROM..TO]… impl=… seq_len=…
      Append a line for each commit that has none; default: HEAD. The line holds the facts of each case, the cost models
      of its counts, and the time against that of a fixed commit, the anchor. Both are measured in the same minutes.
      impl=my.module:MyLayer seq_len=… and the other axes     the cases, as in sweep; several lengths give exponents
      anchor=v1.0                            the commit to time against; default: the first commit of a new FILE
      minutes=5                              stop timing a commit after 5 minutes, but not before 4 generations
      --exact                                measure the facts alone, and time nothing
      A later `history add FILE` needs neither settings nor anchor: the first line of FILE holds both.

    history page FILE [-o PAGE]
      Write the page. Facts change exactly. A time changes at a step in its series, which is a candidate at first.
      threshold=0.03                         the smallest step that matters
      --confirm                              compare the two commits of each candidate directly, and store the result

    history bless FILE COMMIT reason='…'
      Bless the changes of a commit: `history page` shows them with the reason, and does not fail for them.

    examples:
      python -m harness history add history.jsonl v1.0..main impl=my.module:MyLayer seq_len=128,256,512 d_model=64
      python -m harness history add history.jsonl
      python -m harness history page history.jsonl -o history.html --confirm
      python -m harness history bless history.jsonl 1a2b3c4 reason='exact softmax'

    exit status: 0 done; 1 `page` found a change for the worse that is exact or confirmed, still there and not blessed;
    2 usage error; 3 `add` could not measure any case of some commit; 130 interrupted: every line so far is in FILE
    """
    parser.add_argument("action", choices=("add", "page", "bless"), help="what to do with FILE")
    parser.add_argument("file", type=Path, metavar="FILE", help="the history: JSON lines, made by `history add`")
    parser.add_argument("overrides", nargs="*", metavar="COMMIT | key=value", help="commits and settings, as above")
    add_out(parser, "with page: a file to write or replace; default: FILE with .html", "PAGE")
    parser.add_argument("--exact", action="store_true", help="with add: measure the facts alone, and time nothing")
    parser.add_argument(
        "--confirm", action="store_true", help="with page: compare the two commits of each candidate directly"
    )
