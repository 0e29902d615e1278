"""The options of each command, and its `--help`. Importing this file loads nothing that measures.

The function `_x_y` adds the options of the command `x-y` to a parser. Its docstring is the text of its `--help`, where
the names in `_FILLED` stand for longer texts.
"""

import argparse
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from harness.cli.option_forms import check_spelling, with_output_flag, with_output_key
from harness.errors import UsageError
from harness.sweep_axes import AXES, SETTINGS

# The file in which a calibration is saved: `harness.calibration.record.PATH`.
_CALIBRATION = Path("results", "calibration.json")
# The layers of `gradient-reach` by default.
REACH_IMPLS = "rnn.elman,rnn.gru,rnn.lstm,rnn.mingru,attention.packed"
# The keys of `predict` and `recommend` beside their own.
_SIZES = f"""\
seq_len                                 the length, or several: 1024,4096; it need not have been measured
  d_model num_heads batch_size            sizes that need not have been measured; default: the run's, if it has only one
  {" ".join(SETTINGS)}
                                          choose the setting if the run has several; default: mode=forward

You can use a pytest-benchmark JSON instead of a run if its benchmarks give seq_len in extra_info."""
_FILLED = {
    "AXES": "\n  ".join(f"{axis.name + '=' + ('|'.join(axis.values) or '…'):<39}{axis.help}" for axis in AXES.values()),
    "SIZES": _SIZES,
    "LAYERS": REACH_IMPLS,
}


class _Parser(argparse.ArgumentParser):
    """An `ArgumentParser` with errors of one line: it raises UsageError instead of printing its usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser of a command's options."""
    add_options = globals()[f"_{command.replace('-', '_')}"]
    text = inspect.getdoc(add_options) or ""
    for name, filling in _FILLED.items():
        text = text.replace(f"{{{name}}}", filling)
    description, _, epilog = text.partition("\n\n")
    parser = _Parser(
        prog=f"python -m harness {command}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_options(parser)
    return parser


def parse_options(command: str, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of a command: flags and `key=value` in any order.

    Raises UsageError for invalid arguments. Ends the process after `--help`.
    """
    parser = parser_of(command)
    check_spelling(arguments, parser)
    return with_output_key(command, parser.parse_intermixed_args(with_output_flag(command, arguments)))


def _add_run(parser: argparse.ArgumentParser, what: str = "a run's directory, such as results/latest") -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help=what)


def _add_keys(parser: argparse.ArgumentParser, dest: str = "keys", help: str | None = None) -> None:
    parser.add_argument(dest, nargs="*", metavar="key=value", help=help)


def _add_overrides(parser: argparse.ArgumentParser, help: str | None = None) -> None:
    _add_keys(parser, "overrides", help)
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="a directory of your own settings, beside conf/")


def _add_out(
    parser: argparse.ArgumentParser, help: str, metavar: str = "DIR", kind: type = Path, default: Path | None = None
) -> None:
    """Add `-o`, `--out`. The key `out=` is the same."""
    help = f"{help}; or out={metavar}"
    parser.add_argument("-o", "--out", type=kind, default=default, metavar=metavar, help=help)


def _add_open(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--open", action="store_true", help="open report.html in a browser at the end")


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a summary in Markdown")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML, with one test case per verdict")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every verdict as JSON")


def _sweep(parser: argparse.ArgumentParser) -> None:
    """Measure every case of a grid. Write tables and plots to results/.

    axes (each takes a value, a list, or Hydra's sweep grammar):
      {AXES}

    settings:
      preset=ladder                                                          every layer of the ladder, and some blocks
      head_dim=64                                                            sets d_model = num_heads × head_dim
      shape=bert_base|gpt2|vit_b16|transformer_base|llama_7b                 the sizes of a real layer
      'points=[{seq_len:512,batch_size:32},{seq_len:1024,batch_size:16}]'    these points, not every combination
      paper=NAME scale=full|cpu                                              a published setting, with its figures
      precision=quick|standard|strict                                        target interval and limits; its parts are
      precision.target|min_rounds|max_rounds|trial_s|timeout_s|case_s|patience_s
      grow=seq_len                                                           double n until time or memory runs out
      baseline=LAYER                                                         give times relative to this layer too
      out=DIR  seed=N  memory_limit=8GiB  compile_timeout_s=900

    `out=DIR` continues an existing run and measures only the missing trials.
      retry=timeout,error                                                    re-run the cases with these statuses too
      --fresh                                                                set the old run aside, and measure anew

    on a cluster (launcher.partition|account|time|gres|cpus_per_task|exclusive|array_parallelism|setup|apart):
      launcher=slurm threads=N                                               one Slurm array task per shard
      wait=false                                                             submit the shards, and return

    examples:
      python -m harness sweep
      python -m harness sweep 'impl=glob(attention.*)' seq_len=128,256,512 shape=gpt2
      python -m harness sweep impl=my.module:MyLayer,attention.fused 'seq_len=range(256,2049,256)'

    exit status: 0 done; 2 usage error; 3 some case is incorrect, in error, killed or unfinished; 130 interrupted
    """
    _add_overrides(parser)
    _add_out(parser, "a new directory, or a run to continue; default: results/<time>", kind=str)
    parser.add_argument("--dry-run", action="store_true", help="print the grid and the expected time; time nothing")
    parser.add_argument("-v", "--verbose", action="store_true", help="with --dry-run: list every case")
    parser.add_argument("--cfg", action="store_true", help="print the composed configuration; measure nothing")
    parser.add_argument("--fresh", action="store_true", help="set an existing run aside, and measure anew")
    parser.add_argument("--no-plots", action="store_true", help="leave plots/ to a later `report`, which saves seconds")
    _add_open(parser)
    parser.add_argument("-m", "--multirun", action="store_true", help="has no effect: the axes always sweep")


def _check(parser: argparse.ArgumentParser) -> None:
    """Measure the cases of a baseline again, and report what got worse.

    settings:
      impl=… seq_len=… and the other axes    choose among the file's cases: a value, a list, Hydra's grammar or a
                                             pattern: 'impl=rnn.*'
      head_dim=64                            choose the cases with d_model = num_heads × 64
      seed=N  memory_limit=8GiB  compile_timeout_s=900  precision=quick|standard|strict  as in sweep; seed as in FILE
      out=DIR                                keep the new measurement in DIR, as a run like that of a sweep

    what is judged:
      flops, operations, depth               must not increase at all; a decrease is reported and passes
      peak memory                            must not grow by more than 1 %
      the kernel that ran                    must stay fused if it was fused
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
    _add_keys(parser, "overrides")
    _add_out(parser, "keep the new measurement here, as a run", kind=str)
    parser.add_argument("--exact", action="store_true", help="check only what repeats exactly, and time nothing")
    _add_outputs(parser)


def _baseline(parser: argparse.ArgumentParser) -> None:
    """Write what a run found to a file that `check` reads. Measures nothing.

    The file is JSON with one entry per line, always in the same order. Commit it, and read its diff.
    `python -m harness check FILE` measures its cases again and reports what got worse. The times in the file are for
    information only.

    examples:
      python -m harness baseline results/latest -o baseline.json
      python -m harness baseline results/latest | diff baseline.json -

    exit status: 0 done; 2 usage error, or a run without any case that could be measured
    """
    _add_run(parser)
    _add_out(parser, "where to write; default: standard output", "FILE")


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
      python -m harness compare side= side='env.OMP_WAIT_POLICY=passive' impl=rnn.torch threads=2
      python -m harness compare env=.venv-torch26,.venv-torch213 impl=attention.fused seq_len=1024

    exit status: 0 nothing is slower, nor takes more memory or FLOPs; 1 something does; 2 usage error; 3 something could
    not be measured, or the control failed; 130 interrupted
    """
    _add_overrides(parser)
    _add_out(parser, "where to write; default: results/compare_<time>", kind=str)
    _add_outputs(parser)


def _bisect(parser: argparse.ArgumentParser) -> None:
    """Find the commit at which a layer's FLOPs, memory or depth changed or, if no fact differs, its time.

    Give one value of each axis. threshold=0.03 is the smallest change of the time; minutes=10 limits its search.

    examples:
      python -m harness bisect v1.0..main impl=my.module:MyLayer seq_len=512 d_model=64 num_heads=4 threads=1

    exit status: 0 found, or nothing to look for; 2 usage error; 3 undecided, or not measurable; 130 interrupted
    """
    parser.add_argument("span", metavar="GOOD..BAD", help="two commits; the first may not have the change")
    _add_overrides(parser)
    _add_out(parser, "where to write, or to continue; default: results/bisect_<time>", kind=str)
    parser.add_argument("--time", action="store_true", help="search for a change of the time even if a fact differs")


def _report(parser: argparse.ArgumentParser) -> None:
    """Rebuild the tables and plots of a run from its rows. Measures nothing.

    examples:
      python -m harness report results/latest
      python -m harness report results/latest -o here --no-plots

    exit status: 0 done; 2 usage error
    """
    _add_run(parser, "a run's directory, or a pytest-benchmark JSON")
    _add_out(parser, "where to write; default: into the run")
    parser.add_argument("--no-plots", action="store_true", help="write only tables and reports, which saves seconds")
    parser.add_argument("--baseline", metavar="LAYER", help="give times relative to this layer too")
    _add_open(parser)


def _export(parser: argparse.ArgumentParser) -> None:
    """Write a run in another tool's format. Measures nothing.

    formats:
      pytest-benchmark          as --benchmark-json writes it, for pytest-benchmark compare; this harness reads it too
      csv                       the summary, one line per case
      parquet                   the same with types and units; needs -o, or standard output that is not a terminal
      github-action-benchmark   time and peak memory, as its tool customSmallerIsBetter reads them

    examples:
      python -m harness export results/latest --format pytest-benchmark -o .benchmarks/0001_layers.json
      python -m harness export results/latest --format parquet -o layers.parquet

    exit status: 0 done; 2 usage error, or a run with nothing to export
    """
    _add_run(parser)
    parser.add_argument("--format", required=True, metavar="FORMAT", help="one of the formats below")
    _add_out(parser, "where to write; default: standard output", "FILE")


def _list(parser: argparse.ArgumentParser) -> None:
    """List the layers that can be measured and what theory claims of them, or describe one layer.

    The page of one layer has its equation, its claims, the modes and masks that it supports, and what it needs.

    examples:
      python -m harness list
      python -m harness list 'attention.*'
      python -m harness list attention.fused
      python -m harness list --json

    exit status: 0 done; 2 usage error
    """
    parser.add_argument(
        "pattern", nargs="?", metavar="LAYER", help="a layer, a family such as rnn, or a pattern with *"
    )
    parser.add_argument("--json", action="store_true", help="print the layers as JSON, with all that their pages have")


def _doctor(parser: argparse.ArgumentParser) -> None:
    """Print what an issue report needs: versions, machine, threads, GPU, packages, results directory, calibration.

    The text is plain, without colours. Read it before you paste it: it names directories and environment variables.

    exit status: 0, whatever it reports; 2 usage error
    """


def _verify(parser: argparse.ArgumentParser) -> None:
    """Compare layers' outputs and gradients with a float64 reference.

    The output lists the failed cases first, each with its reason, and then prints one line per layer.

    examples:
      python -m harness verify impl=my.module:MyLayer mode=train,decode mask=none,causal,padding
      python -m harness verify --all impl=attention.fused

    exit status: 0 done; 2 usage error; 3 some case failed
    """
    _add_overrides(parser, "the axes of sweep, such as impl=… dtype=…")
    parser.add_argument("-v", "--all", action="store_true", help="print every case, with its errors or its reason")


def _calibrate(parser: argparse.ArgumentParser) -> None:
    """Report whether this machine is fit to measure on: its noise, peaks and settings.

    The command measures the noise floor: how far repeated measurements of the same cases lie apart. No smaller
    slow-down can be distinguished from noise at this precision. It also measures FLOP/s by dtype, memory bandwidth, and
    the cost of reading the clock. It reads governor, turbo, hyper-threads, quotas, steal and other load. Then it prints
    plain advice.

    The result is saved to results/calibration.json. Every later sweep on this machine copies it into its machine.json.

    examples:
      python -m harness calibrate
      python -m harness calibrate precision=standard threads=1
      python -m harness calibrate impl=my.module:MyLayer seq_len=512

    exit status: 0 done, whatever the verdict; 2 usage error; 130 interrupted
    """
    _add_overrides(parser, "as in sweep: precision=… threads=… device=…")
    _add_out(parser, f"where to save the result; default: {_CALIBRATION}", "FILE", default=_CALIBRATION)


def _status(parser: argparse.ArgumentParser) -> None:
    """Show how far a sweep is, from its files alone. Measures nothing.

    A case is finished once it has all its trials, or has failed. Before that, it counts as `begun` if it has rows, and
    as `not yet` if it has none.

    example:
      python -m harness status results/latest

    exit status: 0, whatever the progress; 2 usage error, or a directory that is not a run
    """
    _add_run(parser)


def _predict(parser: argparse.ArgumentParser) -> None:
    """Predict what a layer costs at a size that was not measured. Measures nothing.

    keys:
      impl                                    a layer of the run, or several: attention.fused,rnn.torch; default: all
      {SIZES}

    examples:
      python -m harness predict results/latest impl=attention.fused seq_len=8192,16384
      python -m harness predict results/latest seq_len=3000 d_model=256 num_heads=8 mode=train

    exit status: 0 done; 2 usage error, or the run allows no prediction at any of the sizes
    """
    _add_run(parser, "a run's directory, or a pytest-benchmark JSON")
    _add_keys(parser)


def _recommend(parser: argparse.ArgumentParser) -> None:
    """Recommend a layer for a size: how much faster it is, and how sure. Measures nothing.

    keys:
      memory=8GiB                             leave out layers that may need more, beyond weights and inputs
      {SIZES}

    examples:
      python -m harness recommend results/latest seq_len=4096 d_model=512 num_heads=8
      python -m harness recommend results/latest seq_len=1024 d_model=256 num_heads=4 memory=64MiB mode=train

    exit status: 0 done; 2 usage error, or no layer fits
    """
    _add_run(parser, "a run's directory, or a pytest-benchmark JSON")
    _add_keys(parser)


def _attention_map(parser: argparse.ArgumentParser) -> None:
    """Draw the attention matrix of a layer as labelled heat maps, one per head.

    keys:
      impl=attention.packed       a layer with attention_weights(x, attn_mask); for one of your own: module:Class
      d_model=64 num_heads=4      the sizes of the layer
      mask=none|causal            causal: no word attends to a later one
      seed=0                      draws the layer's weights, which are untrained; a layer that loads its own keeps them
      out=DIR                     a new directory, or a run whose plots/ gets the pictures; default: results/<time>

    The sentence is split on white space. Each word seeds the generator that draws its vector, so equal words have equal
    vectors. Sinusoidal positions are added.

    examples:
      python -m harness attention-map "the cat sat on the mat"
      python -m harness attention-map "the cat sat on the mat" mask=causal num_heads=1 out=results/latest

    exit status: 0 done; 2 usage error, or a layer without attention weights
    """
    parser.add_argument("sentence", nargs="?", default="", help="words, in quotes")
    _add_keys(parser)
    _add_out(parser, "where to write; default: results/<time>", kind=str)


def _gradient_reach(parser: argparse.ArgumentParser) -> None:
    """Measure how far back the last output depends on its input: ‖∂h_n/∂x_t‖ over n − t.

    keys:
      impl={LAYERS}
                                          layers; for one of your own: module:Class
      seq_len=128 d_model=32 num_heads=4  the sizes of the layers
      seeds=8                             how often to draw new weights and inputs
      out=DIR                             a new directory, or a run whose plots/ gets the picture;
                                          default: results/<time>

    Autograd computes the gradients in float64, with a causal mask if the layer supports one. The rate is the factor
    that remains after each step back. It is fitted to the logarithm over the distance, with a 95 % confidence interval
    between seeds.

    examples:
      python -m harness gradient-reach
      python -m harness gradient-reach impl=rnn.elman,my.module:MyLayer seq_len=256 seeds=16

    exit status: 0 done; 2 usage error, or no layer could be measured;
    3 done, but a layer was incorrect, in error or killed
    """
    _add_keys(parser)
    _add_out(parser, "where to write; default: results/<time>", kind=str)
