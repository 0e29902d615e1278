"""The options and `--help` of the commands that compare commits and layers.

`harness.cli.parsers` finds these functions by name.
"""

import argparse
from pathlib import Path

from harness.cli.option_forms import add_keys, add_out, add_outputs, add_overrides, add_run
from harness.extras.compare.changed_layers import ALL, TOUCHED


def _check(parser: argparse.ArgumentParser) -> None:
    """Measure the cases of a baseline again, and report what got worse.

    settings:
      impl=… seq_len=… and the other axes    choose among the file's cases: a value, a list, Hydra's grammar or a
                                             pattern: 'impl=rnn.*'
      head_dim=64                            choose the cases with d_model = num_heads × 64
      seed=N  memory_limit=8GiB  compile_timeout_s=900  precision=quick|standard|strict  as in sweep; seed as in FILE
      error_factor=4                         the largest factor by which an error may grow; inf judges no error
      out=DIR                                keep the new measurement in DIR, as a run like that of a sweep

    what is judged:
      flops, operations, depth               must not increase at all; a decrease is reported and passes
      peak memory                            must not grow by more than 1 %
      the kernel that ran                    must stay fused if it was fused
      errors against the float64 reference   must not grow by more than error_factor
      how memory, flops, depth and time grow the exponents of their cost models must not lie above their intervals
                                             (memory: by more than 0.1)
      claims of theory                       none may be newly refuted
    The command never compares two times. It judges how time grows where both cost models are determined. Growth that
    seems worse is measured a second time in new processes before it counts.

    examples:
      python -m harness check baseline.json --exact
      python -m harness check baseline.json 'impl=attention.*' seq_len=256,512 --junit check.xml

    exit status: 0 nothing got worse; 1 something did; 2 usage error, or an unreadable file; 3 something could not be
    measured; 130 interrupted
    """
    parser.add_argument("file", type=Path, metavar="FILE", help="a file that `python -m harness baseline` wrote")
    add_keys(parser, "overrides")
    add_out(parser, "keep the new measurement here, as a run", kind=str)
    parser.add_argument("--exact", action="store_true", help="check only what repeats exactly, and time nothing")
    add_outputs(parser)


def _baseline(parser: argparse.ArgumentParser) -> None:
    """Write what a run found to a file that `check` reads. Measures nothing.

    The file is JSON with one entry per line, always in the same order. Commit it, and read its diff.
    `python -m harness check FILE` measures its cases again and reports what got worse. The times in the file are for
    information only.

    examples:
      python -m harness baseline results/latest -o baseline.json
      python -m harness baseline results/latest | diff baseline.json -
      python -m harness baseline results/latest -o baseline.json --known-bad 1f3c9a2

    exit status: 0 done; 2 usage error, or a run without any case that could be measured
    """
    add_run(parser)
    add_out(parser, "where to write; default: standard output", "FILE")
    what = "a commit that made a layer slower, for `compare --prove FILE`; may be given several times"
    parser.add_argument("--known-bad", action="append", default=[], metavar="COMMIT", help=what)


def _compare(parser: argparse.ArgumentParser) -> None:
    """Measure two layers side by side, or one layer at two commits, in two environments or with two settings.

    what is compared:
      impl=A,B                               layer B with layer A, at every size
      ref=main                               the layers of the working tree with those of a branch, tag or commit, which
                                             is checked out beside it; impl=… chooses layers, including your own
      side='threads=1' side='threads=8'      a layer with two settings, the base first. A side holds axes, environment
                                             variables as env.NAME=VALUE, and python=ENVIRONMENT; it may be empty
      env=.venv-a,.venv-b                    a layer in two virtual environments, which need only torch and numpy
      control=.venv-a2                       with env=: a copy of the first environment, for the control

    settings:
      seq_len=… d_model=… and other axes     the axes, as in sweep; allocator=steady by default, without page faults
      head_dim=64                            sets d_model = num_heads × head_dim
      preset=… shape=… device=… precision=…  as in sweep; of the precision, only timeout_s applies
      threshold=0.03                         the smallest change that matters
      blocks=120                             a case that is undecided after 120 blocks stays undecided; a slower or
                                             faster case may get as many again
      minutes=10                             end the timing after 10 minutes, of which 4 confirm slower and faster
                                             cases; a case that is unlikely to be decided by then is given up early
      out=DIR                                where to write; an interrupted comparison in DIR continues
      seed=N  memory_limit=8GiB  compile_timeout_s=900

    Each case ends as slower, faster, equivalent or undecided. Slower and faster cases are measured a second time in new
    processes. Each comparison also measures some cases against themselves, as a control. If the control shows a
    difference, nothing is concluded.

    examples:
      python -m harness compare impl=attention.naive,attention.fused seq_len=256,1024
      python -m harness compare ref=origin/main impl=my.module:MyLayer seq_len=128,512 --markdown comparison.md
      python -m harness compare ref=origin/main impl=my.layers:A,my.layers:B --changed --prove baseline.json
      python -m harness compare side= side='env.OMP_WAIT_POLICY=passive' impl=rnn.torch threads=2
      python -m harness compare env=.venv-torch26,.venv-torch213 impl=attention.fused seq_len=1024

    exit status: 0 nothing is slower, nor takes more memory or FLOPs; 1 something is slower or takes more; 2 usage
    error; 3 something could not be measured, or the control failed; 130 interrupted
    """
    add_overrides(parser)
    add_out(parser, "where to write; default: results/compare_<time>", kind=str)
    what = "with ref=: measure only the layers that the diff touches"
    parser.add_argument("--changed", action="store_const", const=TOUCHED, help=what)
    what = "the same, but every layer as soon as code that several of them use has changed"
    # A flag of its own: `--changed` with an optional value would take the option after it as its value.
    parser.add_argument("--changed=all", action="store_const", dest="changed", const=ALL, help=what)
    prove = "also compare the known-bad commits in FILE with their parents; exit status 3 if one is not called slower"
    parser.add_argument("--prove", type=Path, metavar="FILE", help=prove)
    add_outputs(parser)


def _explain(parser: argparse.ArgumentParser) -> None:
    """Show where two layers differ, or one layer at two commits: operations, FLOPs, bytes, tensors at the peak.

    A and B are two layers. With impl=module:Class they are two commits; '.' is the working tree. Give one case: the
    axes are those of compare. Of an axis without a value, the largest default value is taken.

    Each side makes one traced call in a process of its own. Its operations, calls, FLOPs, bytes and tensors alive at
    the peak are exact. Shares of the time are estimates of torch's profiler. `compare` shows the same for slower cases.
    The directory gets explain.md, explain.json, trace_a.json.gz and trace_b.json.gz; chrome://tracing and
    ui.perfetto.dev open the traces.

    examples:
      python -m harness explain attention.naive attention.fused seq_len=1024
      python -m harness explain origin/main . impl=my.module:MyLayer seq_len=512 mode=train

    exit status: 0 done, whatever differs; 2 usage error; 3 a side could not be traced
    """
    parser.add_argument("a", metavar="A", help="a layer, or a commit")
    parser.add_argument("b", metavar="B", help="another one")
    add_overrides(parser)
    add_out(parser, "where to write; default: results/explain_<time>", kind=str)


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
    add_out(parser, "with page: where to write it; default: FILE with .html", "PAGE")
    parser.add_argument("--exact", action="store_true", help="with add: measure the facts alone, and time nothing")
    parser.add_argument(
        "--confirm", action="store_true", help="with page: compare the two commits of each candidate directly"
    )
