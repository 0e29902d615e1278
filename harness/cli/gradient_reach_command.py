"""`python -m harness gradient-reach [key=value …]`."""

import csv
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import catalog
from harness.case import Case
from harness.cli import CASES_FAILED, DONE
from harness.cli.parser import Parser
from harness.csv_cells import escaped
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.report.plots.gradient_reach import Norms
    from harness.scaling.decay import Decay
    from harness.sweep.runner import Runner

_KEYS = ("impl", "seq_len", "d_model", "num_heads", "seeds", "out")
_IMPLS = "rnn.elman,rnn.gru,rnn.lstm,rnn.mingru,attention.packed"
_MOST_LENGTH, _MOST_FEATURES, _MOST_SEEDS = 65536, 65536, 256
_BAD = ("wrong", "error", "killed")
_TABLE = "gradient_reach.csv"

_EPILOG = f"""\
keys:
  impl={_IMPLS}
                                      layers, your own too: module:Class
  seq_len=128 d_model=32 num_heads=4  their size
  seeds=8                             how often weights and input are drawn anew
  out=DIR                             a new directory, or a run, to whose plots/ the picture goes; else results/<time>

Measured by autograd in float64, causally where a layer can be told so. The rate is what each step back keeps, fitted to
the logarithm over the distance, with a 95 % interval between seeds.

examples:
  python -m harness gradient-reach
  python -m harness gradient-reach impl=rnn.elman,my.module:MyLayer seq_len=256 seeds=16

exit status: 0 done; 2 usage, or no layer that it could be measured of; 3 done, but of some it could not
"""


def run(arguments: Sequence[str]) -> int:
    """Measure and draw how far back gradients reach."""
    parser = Parser("gradient-reach", "How far back the last output feels its input: ‖∂h_n/∂x_t‖ over n − t.", _EPILOG)
    parser.add_argument("keys", nargs="*", metavar="key=value")
    options = parser.parse_args(arguments)
    # Imported here so that `--help` does not load the code that sweeps and fits laws.
    from harness.cli.asked import keys
    from harness.cli.looking import number, place, plots, runner, weights_said

    given = keys(options.keys, _KEYS)
    impls = list(dict.fromkeys(given.get("impl", _IMPLS).split(",")))
    for impl in impls:
        catalog.check_name(impl)
    directory = place(given.get("out"), _TABLE)
    n = number(given, "seq_len", 128, _MOST_LENGTH)
    d = number(given, "d_model", 32, _MOST_FEATURES)
    h = number(given, "num_heads", 4, _MOST_FEATURES)
    seeds = number(given, "seeds", 8, _MOST_SEEDS)
    with runner() as started:
        started.start()
        from harness.report.plots.gradient_reach import gradient_reach
        from harness.report.plots.save import save
        from harness.scaling.decay import decay

        norms, own, failed = _measure(
            [Case(impl, n, d, h, mode="train", dtype="float64") for impl in impls], seeds, started
        )
    for impl, outcome in failed.items():
        if not norms:
            raise UsageError(f"{impl}: {outcome['reason']}")
        print(f"harness: {impl}: {outcome['status']}: {outcome['reason']}", file=sys.stderr)
    found = {impl: decay(of_seeds) for impl, of_seeds in norms.items()}
    whose = weights_said(own == norms.keys(), f"seeds 0 to {seeds - 1}" if seeds > 1 else "seed 0")
    legend = {impl: _legend(impl, found[impl], impl in own) for impl in norms}
    figure = gradient_reach(norms, legend, f"How far back the last output feels its input: n = {n}, d = {d}\n{whose}")
    saved = save(figure, plots(directory) / "gradient_reach")
    _write(directory / _TABLE, norms)
    _show(norms, found, whose, own)
    print(*(str(path) for path in (*saved, directory / _TABLE)), sep="\n")
    return CASES_FAILED if any(outcome["status"] in _BAD for outcome in failed.values()) else DONE


def _measure(
    cases: Sequence[Case], seeds: int, started: "Runner"
) -> tuple[dict[str, "Norms"], set[str], dict[str, dict[str, Any]]]:
    """Each layer's gradient norms by distance, of shape (seeds, n).

    Also returns the layers that have their own weights, and the outcomes of layers without norms.
    """
    import numpy as np

    from harness.cli.looking import with_heads

    norms: dict[str, Norms] = {}
    own: set[str] = set()
    failed: dict[str, dict[str, Any]] = {}
    for case in cases:
        case = with_heads(case, started)
        # A causal mask hides nothing from the last token. But it decides whether some layers are built causal.
        outcomes = [_ask(replace(case, mask="causal"), 0, started)]
        if outcomes[0]["status"] == "unsupported":
            outcomes = [_ask(case, 0, started)]
        else:
            case = replace(case, mask="causal")
        while outcomes[-1]["status"] == "ok" and len(outcomes) < seeds:
            outcomes.append(_ask(case, len(outcomes), started))
        if outcomes[-1]["status"] == "ok":
            norms[case.impl] = np.array([outcome["norms"] for outcome in outcomes])
            own |= {case.impl} if outcomes[0]["own_weights"] else set()
        else:
            failed[case.impl] = outcomes[-1]
    return norms, own, failed


def _ask(case: Case, seed: int, started: "Runner") -> dict[str, Any]:
    return started.run("gradient_reach", case, {"seed": seed})


def _legend(impl: str, found: "Decay", own: bool) -> str:
    from harness.report.names import short

    rate = f"keeps {found.rate.value:.3f} a step" if found.rate else "no rate"
    return f"{short(impl)}: {rate}{', own weights' if own else ''}"


def _write(path: Path, norms: Mapping[str, "Norms"]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("impl", "seed", "distance", "norm"))
        for impl, of_seeds in norms.items():
            for seed, values in enumerate(of_seeds):
                table.writerows((escaped(impl), seed, distance, f"{norm:.9g}") for distance, norm in enumerate(values))


def _show(norms: Mapping[str, "Norms"], found: Mapping[str, "Decay"], whose: str, own: Collection[str]) -> None:
    import numpy as np
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from harness.report.said.gradient_reach import half_distance, interval, sentence

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("impl", overflow="fold", min_width=18)
    farthest = max(of_seeds.shape[1] for of_seeds in norms.values()) - 1
    for heading in ("a step", "with 95 %", "half after", "at 0", f"at {farthest}"):
        table.add_column(heading, justify="right", no_wrap=True)
    for impl, one in found.items():
        ends = np.median(norms[impl][:, [0, -1]], axis=0)
        rate = f"{one.rate.value:.3f}" if one.rate else ""
        table.add_row(escape(impl), rate, interval(one), half_distance(one), *(f"{end:.2g}" for end in ends))
    console = Console()
    console.out(f"What each step back keeps ({whose}):", highlight=False)
    console.print(table)
    for impl, one in found.items():
        brings = " (own weights)" if impl in own else ""
        console.print(escape(f"{impl}{brings}: {sentence(one)}"), highlight=False)
