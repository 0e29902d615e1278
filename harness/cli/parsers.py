"""The options of each command, and its `--help`. Importing this file loads nothing that measures.

The function `_x_y` adds the options of the command `x-y` to a parser. Its docstring is the text of its `--help`, where
the names in `_FILLED` stand for longer texts. `harness.cli.commands` names the module of each command.

Options that several commands have are first, with the forms that mean the same, and forms of other tools that get a
hint. Every command that writes takes `-o PLACE`, `--out PLACE` and `out=PLACE`.
"""

import inspect
import re
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from harness.core.model.errors import UsageError
from harness.core.model.extra_tables import entries, referenced
from harness.core.model.sweep_axes import AXES, LETTERS, SETTINGS

from .commands import COMMANDS

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
}
# A path that Hydra's grammar reads as it is: neither a number nor null.
_PLAIN_PATH = re.compile(r"(?!(null|true|false|nan|inf)$)(\.{0,2}/|[a-z_])[\w./~-]*|", re.ASCII | re.IGNORECASE)


def add_run(parser: ArgumentParser, what: str = "a run's directory, such as results/latest") -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help=what)


def add_keys(parser: ArgumentParser, dest: str = "keys", help: str | None = None) -> None:
    parser.add_argument(dest, nargs="*", metavar="key=value", help=help)


def add_overrides(parser: ArgumentParser, help: str | None = None) -> None:
    add_keys(parser, "overrides", help)
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="a directory of your own settings, beside conf/")


def add_out(
    parser: ArgumentParser, help: str, metavar: str = "DIR", kind: type = Path, default: Path | None = None
) -> None:
    """Add `-o`, `--out`. The key `out=` is the same."""
    help = f"{help}; or out={metavar}"
    parser.add_argument("-o", "--out", type=kind, default=default, metavar=metavar, help=help)


def add_open(parser: ArgumentParser) -> None:
    parser.add_argument("--open", action="store_true", help="open report.html in a browser at the end")


def add_outputs(parser: ArgumentParser) -> None:
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a summary in Markdown")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML, with one test case per outcome")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome as JSON")


def with_output_flag(command: str, arguments: Sequence[str]) -> list[str]:
    """The arguments with flags for the keys `out=` and `baseline=`, for commands that have a flag only."""
    outs = [text for text in arguments if re.match(r"out=|-o|--out\b", text)]
    out = COMMANDS[command].out
    if out and len(outs) > 1:
        raise UsageError(f"{outs[0]} {outs[-1]}: out is given twice")
    if out == "flag" and "out=" in arguments:
        raise UsageError("out=: name a file or a directory")
    keys = [*(["out="] if out == "flag" else []), *(["baseline="] if command == "report" else [])]
    return [f"--{text}" if text.startswith(tuple(keys)) else text for text in arguments]


def with_output_key(command: str, options: Namespace) -> Namespace:
    """The options with the key `out=` for the flag `--out`, for commands that have keys."""
    out = COMMANDS[command].out
    if out == "override" and options.out is not None:
        # Only backslashes before a quote are special to Hydra.
        escaped = re.sub(r"(\\*)('|$)", lambda match: 2 * match[1] + ("\\'" if match[2] else ""), options.out)
        plain = _PLAIN_PATH.fullmatch(options.out)
        options.overrides.append(f"out={options.out}" if plain else f"out='{escaped}'")
    elif out == "key" and options.out is not None:
        options.keys.append(f"out={options.out}")
    return options


def check_spelling(arguments: Sequence[str], parser: ArgumentParser) -> None:
    """Raise UsageError for a setting written as a flag, `--seq_len 128`."""
    for index, text in enumerate(arguments):
        flag, equals, value = text.partition("=")
        name = flag.lstrip("-").replace("-", "_")
        if not flag.startswith("--") or flag in parser._option_string_actions or name not in _settings():
            continue
        if not equals:
            following = [*arguments[index + 1 : index + 2], "…"][0]
            value = "…" if following.startswith("-") else following
        raise UsageError(f"{flag} is not a flag: write {name}={value}")


def _settings() -> list[str]:
    from harness.core.config.schema import keys  # slow to load, and only mistakes need it

    return [*AXES, *LETTERS, *keys(for_sweep=True)]


class _Parser(ArgumentParser):
    """An `ArgumentParser` with errors of one line: it raises UsageError instead of printing its usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def parser_of(command: str) -> ArgumentParser:
    """The parser of a command's options."""
    add_options = COMMANDS[command].add_options
    text = inspect.getdoc(add_options) or ""
    for name, filling in _FILLED.items():
        text = text.replace(f"{{{name}}}", filling)
    description, _, epilog = text.partition("\n\n")
    parser = _Parser(
        prog=f"python -m harness {command}",
        description=description,
        epilog=epilog,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_options(parser)
    for name, more_options in entries("OPTIONS"):
        if name == command:
            referenced(more_options)(parser)
    return parser


def parse_options(command: str, arguments: Sequence[str]) -> Namespace:
    """Parse the arguments of a command: flags and `key=value` in any order.

    Raises UsageError for invalid arguments. Ends the process after `--help`.
    """
    parser = parser_of(command)
    check_spelling(arguments, parser)
    return with_output_key(command, parser.parse_intermixed_args(with_output_flag(command, arguments)))


def _sweep(parser: ArgumentParser) -> None:
    """Measure every case of a grid. Write tables and plots to results/.

    axes (each takes a value, a list, or Hydra's sweep grammar):
      {AXES}

    settings:
      preset=ladder                                                          every layer, and some blocks
      preset=linear_time                                                     layers linear in n, beside attention
      head_dim=64                                                            sets d_model = num_heads × head_dim
      shape=bert_base|gpt2|vit_b16|transformer_base|llama_7b                 the sizes of a real layer
      shape=gpu                                                              sizes for a GPU: the default of device=cuda
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
    --dry-run exits with 3 too, if a case is known to fail
    """
    add_overrides(parser)
    add_out(parser, "a new directory, or a run to continue; default: results/<time>", kind=str)
    parser.add_argument("--dry-run", action="store_true", help="print the grid and the expected time; time nothing")
    parser.add_argument("-v", "--verbose", action="store_true", help="with --dry-run: list every case")
    parser.add_argument("--cfg", action="store_true", help="print the composed configuration; measure nothing")
    parser.add_argument("--fresh", action="store_true", help="set an existing run aside, and measure anew")
    parser.add_argument("--no-plots", action="store_true", help="leave plots/ to a later `report`, which saves seconds")
    parser.add_argument(
        "--profile", choices=("ncu", "nsys", "torch"), help="profile three calls of one case instead; measure nothing"
    )
    add_open(parser)


def _report(parser: ArgumentParser) -> None:
    """Rebuild the tables and plots of a run from its rows. Measures nothing.

    examples:
      python -m harness report results/latest
      python -m harness report results/latest -o here --no-plots

    exit status: 0 done; 2 usage error
    """
    add_run(parser, "a run's directory, or a pytest-benchmark JSON")
    add_out(parser, "where to write; default: into the run")
    parser.add_argument("--no-plots", action="store_true", help="write only tables and reports, which saves seconds")
    parser.add_argument("--baseline", metavar="LAYER", help="give times relative to this layer too")
    add_open(parser)


def _list(parser: ArgumentParser) -> None:
    """List the layers that can be measured and what theory claims of them, or describe one layer.

    The page of one layer has its equation, its claims, the modes and masks that it supports, and what it needs. The
    page of a layer or function of your own also has its axes with their letters, and the shapes of its inputs.

    examples:
      python -m harness list
      python -m harness list 'attention.*'
      python -m harness list attention.fused
      python -m harness list impl=my_kernels:my_attention
      python -m harness list --json

    exit status: 0 done; 2 usage error
    """
    parser.add_argument(
        "pattern", nargs="?", metavar="LAYER", help="a layer, a family such as rnn, a pattern with *, or module:name"
    )
    parser.add_argument("--json", action="store_true", help="print the layers as JSON, with all that their pages have")


def _doctor(parser: ArgumentParser) -> None:
    """Print what an issue report needs: versions, machine, threads, GPU, packages, results directory, calibration.

    The text is plain, without colours. Read it before you paste it: it names directories and environment variables.

    exit status: 0, whatever it reports; 2 usage error
    """


def _verify(parser: ArgumentParser) -> None:
    """Compare layers' outputs and gradients with a float64 reference.

    The output lists the failed cases first, each with its reason, and then prints one line per layer.

    examples:
      python -m harness verify impl=my.module:MyLayer mode=train,decode mask=none,causal,padding
      python -m harness verify --all impl=attention.fused

    exit status: 0 done; 2 usage error; 3 some case failed
    """
    add_overrides(parser, "the axes of sweep, such as impl=… dtype=…")
    parser.add_argument("-v", "--all", action="store_true", help="print every case, with its errors or its reason")


def _status(parser: ArgumentParser) -> None:
    """Show how far a sweep is, from its files alone. Measures nothing.

    A case is finished once it has all its trials, or has failed. Before that, it counts as `begun` if it has rows, and
    as `not yet` if it has none.

    example:
      python -m harness status results/latest

    exit status: 0, whatever the progress; 2 usage error, or a directory that is not a run
    """
    add_run(parser)


def _predict(parser: ArgumentParser) -> None:
    """Predict what a layer costs at a size that was not measured. Measures nothing.

    keys:
      impl                                    a layer of the run, or several: attention.fused,rnn.torch; default: all
      {SIZES}

    examples:
      python -m harness predict results/latest impl=attention.fused seq_len=8192,16384
      python -m harness predict results/latest seq_len=3000 d_model=256 num_heads=8 mode=train

    exit status: 0 done; 2 usage error, or the run allows no prediction at any of the sizes
    """
    add_run(parser, "a run's directory, or a pytest-benchmark JSON")
    add_keys(parser)


def _recommend(parser: ArgumentParser) -> None:
    """Recommend a layer for a size: how much faster it is, and how sure. Measures nothing.

    keys:
      memory=8GiB                             leave out layers that may need more, beyond weights and inputs
      mix=64:0.94,4096:0.06                   the least mean time of calls, of which 94 % have n = 64; or of modes,
                                              mix=decode:0.9,forward:0.1; or a CSV file with a column weight
      {SIZES}

    examples:
      python -m harness recommend results/latest seq_len=4096 d_model=512 num_heads=8
      python -m harness recommend results/latest seq_len=1024 d_model=256 num_heads=4 memory=64MiB mode=train
      python -m harness recommend results/latest mix=64:0.94,4096:0.06 d_model=256 num_heads=4

    exit status: 0 done; 2 usage error, or no layer fits
    """
    add_run(parser, "a run's directory, or a pytest-benchmark JSON")
    add_keys(parser)


def _baseline(parser: ArgumentParser) -> None:
    """Write what a run found to a file that `check` reads. Measures nothing.

    The file is JSON with one entry per line, always in the same order. Commit it, and read its diff.
    `python -m harness check FILE` measures its cases again and reports what got worse. The times in the file are for
    information only.

    examples:
      python -m harness baseline results/latest -o baseline.json
      python -m harness baseline results/latest | diff baseline.json -

    exit status: 0 done; 2 usage error, or a run without any case that could be measured
    """
    add_run(parser)
    add_out(parser, "a file to write or replace; default: standard output", "FILE")
    parser.set_defaults(known_bad=())


def _check(parser: ArgumentParser) -> None:
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
      weights, memory kept by each call      must not grow at all
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
