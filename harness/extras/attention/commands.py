"""The commands `attention-map "a sentence" [key=value …]` and `gradient-reach [key=value …]`: a look inside a layer."""

import argparse
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.commands import CASES_FAILED, DONE
from harness.cli.parsers import add_keys, add_out
from harness.core.config.key_value_options import Key, layer, read_keys, whole
from harness.core.layers.layer_lookup import indivisible_size
from harness.core.model.case_grid import collapsed
from harness.core.model.errors import UsageError, notify, usage_error_about
from harness.core.model.sweep_axes import BAD_STATUSES, Case
from harness.core.results.row import AT_LEAST_0, FINITE, FLAG, TrialKind, list_of
from harness.core.results.run_directory import check_run, unused_path

if TYPE_CHECKING:
    from harness.core.run.executor import Executor
    from harness.core.run.outcome import TrialOutcome

    from .pictures import Finding


# Upper limits: more words, heads or features would not be visible in a picture.
_MOST_WORDS, _MOST_HEADS, _MOST_FEATURES = 128, 64, 65536
_ATTENTION_MAP_KEYS = (
    Key("impl", layer, "attention.packed"),
    Key("d_model", whole, 64, most=_MOST_FEATURES),
    Key("num_heads", whole, 4, most=_MOST_HEADS),
    Key("mask", default="none", values=("none", "causal")),
    Key("seed", whole, 0, least=0, most=2**63 - 1),
    Key("out"),
)


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
    add_keys(parser)
    add_out(parser, "where to write; default: results/<time>", kind=str)


def run_attention_map(options: argparse.Namespace) -> int:
    """Draw the attention matrix of a layer."""
    words = _words(options.sentence)
    options_given = read_keys(options.keys, _ATTENTION_MAP_KEYS)
    directory = _output_directory(options_given.pop("out"), "attention_map.csv")
    seed = options_given.pop("seed")
    from harness.core.run.executor import short_executor

    with short_executor() as executor:
        executor.start()
        from .pictures import attention_finding

        case = _with_heads_chosen(Case(seq_len=len(words), **options_given), executor)
        outcome = executor.run("attention_map", case, {"seed": seed, "words": [_number(word) for word in words]})
    if not outcome.ok:
        raise UsageError(f"{case.impl}: {outcome.reason}")
    _present(attention_finding(case, words, outcome.values, seed), directory)
    return DONE


def _words(sentence: str) -> list[str]:
    words = sentence.split()
    example = 'python -m harness attention-map "the cat sat on the mat"'
    if len(words) == 1 and words[0].startswith(tuple(f"{key.name}=" for key in _ATTENTION_MAP_KEYS)):
        raise UsageError(f"'{words[0]}' is not a sentence: give the sentence first, in quotes: {example}")
    if not words:
        raise UsageError(f"give a sentence, in quotes: {example}")
    if len(words) > _MOST_WORDS:
        raise UsageError(f"the sentence has {len(words)} words: a picture shows {_MOST_WORDS} at most")
    return words


def _number(word: str) -> int:
    """A seed of 63 bits for the word, the same in every run."""
    return int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "big") >> 1


_GRADIENT_REACH_KEYS = (
    Key("impl", layer, ("rnn.elman", "rnn.gru", "rnn.lstm", "rnn.mingru", "attention.packed"), many=True),
    Key("seq_len", whole, 128, most=65536),
    Key("d_model", whole, 32, most=_MOST_FEATURES),
    Key("num_heads", whole, 4, most=_MOST_FEATURES),
    Key("seeds", whole, 8, most=256),
    Key("out"),
)


def _gradient_reach(parser: argparse.ArgumentParser) -> None:
    """Measure how far back the last output depends on its input: ‖∂h_n/∂x_t‖ over n − t.

    keys:
      impl=rnn.elman,rnn.gru,rnn.lstm,rnn.mingru,attention.packed
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
    add_keys(parser)
    add_out(parser, "where to write; default: results/<time>", kind=str)


def run_gradient_reach(options: argparse.Namespace) -> int:
    """Measure and draw how far back gradients reach."""
    keys = read_keys(options.keys, _GRADIENT_REACH_KEYS)
    directory = _output_directory(keys["out"], "gradient_reach.csv")
    n, d, h = (keys[name] for name in ("seq_len", "d_model", "num_heads"))
    from harness.core.run.executor import short_executor

    with short_executor() as executor:
        executor.start()
        from .pictures import gradient_finding

        cases = [Case(impl, n, d, h, mode="train", dtype="float64") for impl in keys["impl"]]
        outcomes = {case.impl: _gradients(case, keys["seeds"], executor) for case in cases}
    failed = {impl: of_seeds[-1] for impl, of_seeds in outcomes.items() if not of_seeds[-1].ok}
    for impl, outcome in failed.items():
        if len(failed) == len(outcomes):
            raise UsageError(f"{impl}: {outcome.reason}")
        notify(f"{impl}: {outcome.status}: {outcome.reason}")
    measured = {
        impl: [outcome.values for outcome in of_seeds] for impl, of_seeds in outcomes.items() if impl not in failed
    }
    _present(gradient_finding(measured, n, d), directory)
    return CASES_FAILED if any(outcome.status in BAD_STATUSES for outcome in failed.values()) else DONE


def _gradients(case: Case, seeds: int, executor: "Executor") -> list["TrialOutcome"]:
    """The outcomes of a layer by seed, the last of which is its failure if the layer failed."""
    case = _with_heads_chosen(case, executor)
    # A causal mask hides nothing from the last token. But it decides whether some layers are built causal.
    for masked in (replace(case, mask="causal"), case):
        outcomes = []
        for seed in range(seeds):
            outcomes.append(executor.run("gradient_reach", masked, {"seed": seed}))
            if not outcomes[-1].ok:
                break
        if outcomes[0].status != "unsupported":
            break
    return outcomes


# Both commands use what follows.


def _with_heads_chosen(case: Case, executor: "Executor") -> Case:
    """The case, with one head if the layer has none. Raises UsageError if its sizes are impossible."""
    from harness.core.run.session import DescribedLayers

    has_heads = DescribedLayers(executor).layer(case.impl).has_heads
    if reason := indivisible_size(case, has_heads):
        raise UsageError(reason)
    return collapsed(case, lambda impl: has_heads)


def _output_directory(out: str | None, table: str) -> Path:
    """The directory `out`, or a new one in `results/` if `out` is None. Does not create the directory.

    Raises UsageError unless the directory is new, empty, a run, or contains `table`. That is the table that the command
    wrote there before.
    """
    if out is None:
        return unused_path()
    if not out:
        raise UsageError("out= names no directory")
    directory = Path(out)
    with usage_error_about(f"out={out}"):
        if directory.exists() and not directory.is_dir():
            raise UsageError(f"out={out} is a file: name a directory")
        if directory.is_dir() and any(directory.iterdir()) and not (directory / table).is_file():
            check_run(directory)
    return directory


def _present(finding: "Finding", directory: Path) -> None:
    from rich.console import Console

    from harness.study.report.document import show

    written = finding.write(directory)
    show(finding.parts, Console())
    print(*map(str, written), sep="\n")


ATTENTION_MAP = TrialKind(
    {"weights": list_of(list_of(list_of(FINITE))), "row_error": AT_LEAST_0, "own_weights": FLAG},
    handler="harness.extras.attention.trials:attention_map",
    takes=("case", "seed", "words"),
)
GRADIENT_REACH = TrialKind(
    {"norms": list_of(AT_LEAST_0), "own_weights": FLAG}, handler="harness.extras.attention.trials:gradient_reach"
)
