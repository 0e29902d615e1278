"""The options and `--help` of `compare` and `explain`. Importing this file loads nothing that measures."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from harness.cli.parsers import add_out, add_outputs, add_overrides
from harness.core.config.key_value_options import Key
from harness.core.config.schema import SweepConfig
from harness.core.model.errors import UsageError

from .worktree import ALL, TOUCHED, commit_of

# The default of commands that compare times and tensors: page faults would be most of the noise.
STEADY = ("allocator=steady",)
# The default of commands that time two sides in turns. In a turn the calls follow each other.
IN_TURNS = (*STEADY, "cache=hot")
# No machine can resolve a smaller change than the least threshold, and a threshold of 1 is not a useful one.
_SHARE = "a number from 0.001 on and below 1; 0.03 means 3 %"
THRESHOLD = Key("threshold", float, 0.03, least=0.001, most=math.nextafter(1, 0), takes=_SHARE)
MINUTES = Key("minutes", float, 10.0, least=math.ulp(0.0), most=math.inf, takes="a number above 0")


def check_in_turns(config: SweepConfig) -> None:
    """Raise UsageError for a cache of the GPU that calls in turns do not find."""
    other = [cache for cache in config.axes["cache"] if cache != "hot"]
    if other and set(config.axes["device"]) != {"cpu"}:
        raise UsageError(
            f"cache={other[0]}: sides are compared by calls that follow each other, with a hot cache: leave cache out, "
            "or use sweep"
        )


def names_and_settings(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words without `=`, which name commits or layers, and those with it."""
    return [word for word in words if "=" not in word], [word for word in words if "=" in word]


def _compare(parser: argparse.ArgumentParser) -> None:
    """Measure two layers side by side, or one layer at two commits, in two environments or with two settings.

    what is compared:
      impl=A,B                               layer B with layer A, at every size
      ref=main                               the layers of the working tree with those of a branch, tag or commit, which
                                             is checked out beside it; impl=… chooses layers, including your own
      side='threads=1' side='threads=8'      a layer with two settings, the base first. A side holds axes, environment
                                             variables as env.NAME=VALUE, and python=ENVIRONMENT; it may be empty
      env=.venv-a,.venv-b                    a layer in two virtual environments, which need torch, numpy and scipy
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


def add_known_bad(parser: argparse.ArgumentParser) -> None:
    """Add an option to `baseline`: the commits that `compare --prove` must find."""
    what = "a commit that made a layer slower, for `compare --prove FILE`; may be given several times"
    parser.add_argument(
        "--known-bad",
        action="append",
        default=[],
        type=lambda commit: lambda: commit_of(commit).hash,
        metavar="COMMIT",
        help=what,
    )
