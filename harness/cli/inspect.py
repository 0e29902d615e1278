"""The commands `attention-map "a sentence" [key=value …]` and `gradient-reach [key=value …]`: a look inside a layer."""

import csv
import hashlib
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import registry
from harness.case import Case
from harness.cli import CASES_FAILED, DONE
from harness.cli.options import Parser
from harness.errors import UsageError, did_you_mean
from harness.files import escaped_cell
from harness.registry import unsupported_reason
from harness.store.directory import RESULTS, check_run

if TYPE_CHECKING:
    from harness.fit.gradient_decay import Decay
    from harness.measure.executor import Executor
    from harness.report.attention_and_gradients import Norms, Weights


_ATTENTION_MAP_KEYS = ("impl", "d_model", "num_heads", "mask", "seed", "out")
_MASKS = ("none", "causal")
# Upper limits: more words, heads or features would not be visible in a picture.
_MOST_WORDS, _MOST_HEADS, _MOST_FEATURES = 128, 64, 65536
# Up to these numbers of words and heads, the strongest weights are printed too.
_PRINTED_WORDS, _PRINTED_HEADS = 16, 6
_ATTENTION_MAP_TABLE = "attention_map.csv"

_ATTENTION_MAP_EPILOG = """\
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


def run_attention_map(arguments: Sequence[str]) -> int:
    """Draw the attention matrix of a layer."""
    parser = Parser(
        "attention-map",
        "Draw the attention matrix of a layer as labelled heat maps, one per head.",
        _ATTENTION_MAP_EPILOG,
    )
    parser.add_argument("sentence", help="words, in quotes")
    parser.add_argument("keys", nargs="*", metavar="key=value")
    options = parser.parse_intermixed_args(arguments)
    # Imported here so that `--help` does not load the code that sweeps and fits laws.
    from harness.cli.size_request import size_keys

    words = _words(options.sentence)
    given = size_keys(options.keys, _ATTENTION_MAP_KEYS)
    directory = plot_path(given.get("out"), _ATTENTION_MAP_TABLE)
    case = Case(
        _impl(given),
        seq_len=len(words),
        d_model=positive_number(given, "d_model", 64, _MOST_FEATURES),
        num_heads=positive_number(given, "num_heads", 4, _MOST_HEADS),
        mask=_mask(given),
    )
    seed = positive_number(given, "seed", 0, 2**63 - 1, least=0)
    with short_executor() as started:
        started.start()
        import numpy as np

        from harness.report.attention_and_gradients import attention_map, fonts_for
        from harness.report.plots.style import save

        case = with_heads_chosen(case, started)
        outcome = started.run("attention_map", case, {"seed": seed, "words": [_number(word) for word in words]})
    if outcome["status"] != "ok":
        raise UsageError(f"{case.impl}: {outcome['reason']}")
    weights = np.array(outcome["weights"])  # (h, n, n)
    whose = weights_sentence(outcome["own_weights"], f"seed {seed}")
    figure = attention_map(words, weights, case.mask == "causal", f"{_heading(case, weights)}, {whose}")
    saved = save(figure, check_plot_path(directory) / "attention_map")
    _write_attention_map(directory / _ATTENTION_MAP_TABLE, words, weights)
    _show_attention_map(words, weights, whose)
    print(f"Every row sums to 1, to within {outcome['row_error']:.1e}.")
    if fonts_for(words)[1]:
        print("No font here has all of its letters: they are boxes in the .png, and text in the .svg.")
    print(*(str(path) for path in (*saved, directory / _ATTENTION_MAP_TABLE)), sep="\n")
    return DONE


def _words(sentence: str) -> list[str]:
    words = sentence.split()
    if len(words) == 1 and words[0].partition("=")[0] in _ATTENTION_MAP_KEYS and "=" in words[0]:
        raise UsageError(f"'{words[0]}' is not a sentence: give the sentence first, in quotes")
    if not words:
        raise UsageError("the sentence is empty: give its words, in quotes")
    if len(words) > _MOST_WORDS:
        raise UsageError(f"the sentence has {len(words)} words: a picture shows {_MOST_WORDS} at most")
    return words


def _impl(given: Mapping[str, str]) -> str:
    impl = given.get("impl", "attention.packed")
    registry.check_name(impl)
    return impl


def _mask(given: Mapping[str, str]) -> str:
    mask = given.get("mask", "none")
    if mask not in _MASKS:
        raise UsageError(f"unknown mask '{mask}'{did_you_mean(mask, _MASKS)}")
    return mask


def _number(word: str) -> int:
    """A seed of 63 bits for the word, the same in every run."""
    return int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "big") >> 1


def _heading(case: Case, weights: "Weights") -> str:
    mask = ", causal" if case.mask == "causal" else ""
    return f"{case.impl}: d = {case.d_model}, h = {len(weights)}{mask}"


def _write_attention_map(path: Path, words: Sequence[str], weights: "Weights") -> None:
    """Write one line per weight; positions count from 1."""
    # Invalid characters, which a broken argument can contain, are written as escapes.
    cells = [escaped_cell(word) for word in words]
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("head", "query", "query_position", "key", "key_position", "weight"))
        for head, matrix in enumerate(weights, start=1):
            for i, row in enumerate(matrix):
                for j, weight in enumerate(row):
                    table.writerow((head, cells[i], i + 1, cells[j], j + 1, f"{weight:.9g}"))


def _show_attention_map(words: Sequence[str], weights: "Weights", whose: str) -> None:
    """Print which word each word attends to most, by head, and whose weights these are. Skips long sentences."""
    if len(words) > _PRINTED_WORDS or len(weights) > _PRINTED_HEADS:
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from harness.report.attention_and_gradients import label_text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("word", overflow="fold")
    for head in range(len(weights)):
        table.add_column(f"head {head + 1}", overflow="fold")
    for i, word in enumerate(words):
        strongest = [(matrix[i].argmax(), matrix[i].max()) for matrix in weights]
        cells = [f"{escape(label_text(words[j], 16))} {weight:.2f}" for j, weight in strongest]
        table.add_row(escape(label_text(word, 24)), *cells)
    console = Console()
    console.out(f"Each word looks most at ({whose}):", highlight=False)
    console.print(table)


_GRADIENT_REACH_KEYS = ("impl", "seq_len", "d_model", "num_heads", "seeds", "out")
_IMPLS = "rnn.elman,rnn.gru,rnn.lstm,rnn.mingru,attention.packed"
_MOST_LENGTH, _MOST_SEEDS = 65536, 256
_BAD = ("incorrect", "error", "killed")
_GRADIENT_REACH_TABLE = "gradient_reach.csv"

_GRADIENT_REACH_EPILOG = f"""\
keys:
  impl={_IMPLS}
                                      layers; for one of your own: module:Class
  seq_len=128 d_model=32 num_heads=4  the sizes of the layers
  seeds=8                             how often to draw new weights and inputs
  out=DIR                             a new directory, or a run whose plots/ gets the picture; default: results/<time>

Autograd computes the gradients in float64, with a causal mask if the layer supports one. The rate is the factor that
remains after each step back. It is fitted to the logarithm over the distance, with a 95 % confidence interval between
seeds.

examples:
  python -m harness gradient-reach
  python -m harness gradient-reach impl=rnn.elman,my.module:MyLayer seq_len=256 seeds=16

exit status: 0 done; 2 usage error, or no layer could be measured;
3 done, but a layer was incorrect, in error or killed
"""


def run_gradient_reach(arguments: Sequence[str]) -> int:
    """Measure and draw how far back gradients reach."""
    parser = Parser(
        "gradient-reach",
        "Measure how far back the last output depends on its input: ‖∂h_n/∂x_t‖ over n − t.",
        _GRADIENT_REACH_EPILOG,
    )
    parser.add_argument("keys", nargs="*", metavar="key=value")
    options = parser.parse_args(arguments)
    # Imported here so that `--help` does not load the code that sweeps and fits laws.
    from harness.cli.size_request import size_keys

    given = size_keys(options.keys, _GRADIENT_REACH_KEYS)
    impls = list(dict.fromkeys(given.get("impl", _IMPLS).split(",")))
    for impl in impls:
        registry.check_name(impl)
    directory = plot_path(given.get("out"), _GRADIENT_REACH_TABLE)
    n = positive_number(given, "seq_len", 128, _MOST_LENGTH)
    d = positive_number(given, "d_model", 32, _MOST_FEATURES)
    h = positive_number(given, "num_heads", 4, _MOST_FEATURES)
    seeds = positive_number(given, "seeds", 8, _MOST_SEEDS)
    with short_executor() as started:
        started.start()
        from harness.fit.gradient_decay import decay
        from harness.report.attention_and_gradients import gradient_reach
        from harness.report.plots.style import save

        norms, own, failed = _measure(
            [Case(impl, n, d, h, mode="train", dtype="float64") for impl in impls], seeds, started
        )
    for impl, outcome in failed.items():
        if not norms:
            raise UsageError(f"{impl}: {outcome['reason']}")
        print(f"harness: {impl}: {outcome['status']}: {outcome['reason']}", file=sys.stderr)
    found = {impl: decay(of_seeds) for impl, of_seeds in norms.items()}
    whose = weights_sentence(own == norms.keys(), f"seeds 0 to {seeds - 1}" if seeds > 1 else "seed 0")
    legend = {impl: _legend(impl, found[impl], impl in own) for impl in norms}
    figure = gradient_reach(norms, legend, f"How far back the last output feels its input: n = {n}, d = {d}\n{whose}")
    saved = save(figure, check_plot_path(directory) / "gradient_reach")
    _write_gradient_reach(directory / _GRADIENT_REACH_TABLE, norms)
    _show_gradient_reach(norms, found, whose, own)
    print(*(str(path) for path in (*saved, directory / _GRADIENT_REACH_TABLE)), sep="\n")
    return CASES_FAILED if any(outcome["status"] in _BAD for outcome in failed.values()) else DONE


def _measure(
    cases: Sequence[Case], seeds: int, started: "Executor"
) -> tuple[dict[str, "Norms"], set[str], dict[str, dict[str, Any]]]:
    """Each layer's gradient norms by distance, of shape (seeds, n).

    Also returns the layers that have their own weights, and the outcomes of layers without norms.
    """
    import numpy as np

    norms: dict[str, Norms] = {}
    own: set[str] = set()
    failed: dict[str, dict[str, Any]] = {}
    for case in cases:
        case = with_heads_chosen(case, started)
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


def _ask(case: Case, seed: int, started: "Executor") -> dict[str, Any]:
    return started.run("gradient_reach", case, {"seed": seed})


def _legend(impl: str, found: "Decay", own: bool) -> str:
    from harness.formatting import shortened

    rate = f"keeps {found.rate.value:.3f} a step" if found.rate else "no rate"
    return f"{shortened(impl)}: {rate}{', own weights' if own else ''}"


def _write_gradient_reach(path: Path, norms: Mapping[str, "Norms"]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("impl", "seed", "distance", "norm"))
        for impl, of_seeds in norms.items():
            for seed, values in enumerate(of_seeds):
                table.writerows(
                    (escaped_cell(impl), seed, distance, f"{norm:.9g}") for distance, norm in enumerate(values)
                )


def _show_gradient_reach(
    norms: Mapping[str, "Norms"], found: Mapping[str, "Decay"], whose: str, own: Collection[str]
) -> None:
    import numpy as np
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from harness.report.text.laws import gradient_reach_sentence, half_distance, reach_interval

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("impl", overflow="fold", min_width=18)
    farthest = max(of_seeds.shape[1] for of_seeds in norms.values()) - 1
    for heading in ("a step", "with 95 %", "half after", "at 0", f"at {farthest}"):
        table.add_column(heading, justify="right", no_wrap=True)
    for impl, one in found.items():
        ends = np.median(norms[impl][:, [0, -1]], axis=0)
        rate = f"{one.rate.value:.3f}" if one.rate else ""
        table.add_row(escape(impl), rate, reach_interval(one), half_distance(one), *(f"{end:.2g}" for end in ends))
    console = Console()
    console.out(f"What each step back keeps ({whose}):", highlight=False)
    console.print(table)
    for impl, one in found.items():
        brings = " (own weights)" if impl in own else ""
        console.print(escape(f"{impl}{brings}: {gradient_reach_sentence(one)}"), highlight=False)


# Both commands use what follows: numbers, output directories, and layers with or without heads.

# The longest time that a command waits for a layer.
TIMEOUT_S = 60.0
_PLOTS = "plots"


def positive_number(given: Mapping[str, str], name: str, default: int, most: int, least: int = 1) -> int:
    """The whole number given for a key, or its default. Raises UsageError if it is invalid or out of bounds."""
    text = given.get(name, str(default))
    if not (text.isascii() and text.isdigit() and least <= int(text[:20]) <= most):
        raise UsageError(f"{name}={text}: it takes a whole number from {least} to {most}")
    return int(text)


def plot_path(out: str | None, own: str) -> Path:
    """The directory `out`, or a new one in `results/` if `out` is None. Does not create the directory.

    Raises UsageError unless the directory is new, empty, a run, or contains `own`. That is the table that the command
    wrote there before.
    """
    if out is None:
        return RESULTS / time.strftime("%Y-%m-%d_%H-%M-%S")
    if not out:
        raise UsageError("out= names no directory")
    directory = Path(out)
    try:
        if directory.exists() and not directory.is_dir():
            raise UsageError(f"out={out} is a file: name a directory")
        if directory.is_dir() and any(directory.iterdir()) and not (directory / own).is_file():
            check_run(directory)
    except OSError as error:
        raise UsageError(f"out={out}: {error.strerror}") from error
    return directory


def check_plot_path(directory: Path) -> Path:
    """The directory for pictures in `directory`, created if missing."""
    (directory / _PLOTS).mkdir(parents=True, exist_ok=True)
    return directory / _PLOTS


def short_executor() -> "Executor":
    """A runner that examines layers in separate processes, so that this process needs no torch."""
    from harness.measure.executor import Executor

    return Executor(seed=0, trial_s=1.0, timeout_s=TIMEOUT_S, memory_limit=None)


def with_heads_chosen(case: Case, started: "Executor") -> Case:
    """The case, with one head if the layer has none. Raises UsageError if its sizes are impossible."""
    from harness.measure.session import describe_impl

    has_heads = describe_impl(case.impl, started).has_heads
    reason = unsupported_reason(case, has_heads)
    if reason:
        raise UsageError(reason)
    return case if has_heads else Case(**{**case.as_dict(), "num_heads": 1})


def weights_sentence(own: bool, seeds: str) -> str:
    """Whose weights the layer had, in words. Random weights do not show what a layer learns."""
    return "own weights" if own else f"untrained, {seeds}"
