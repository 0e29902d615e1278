"""The parts of `.ci/cuda` in the order of their worth: what each one shows, how long it takes, and its command.

This module imports neither torch nor the harness, so that the runner works where either of them is broken.
"""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAPERS = sorted(file.stem for file in (ROOT / "conf" / "paper").glob("*.yaml"))
DURATIONS = "durations.json"

# A sweep ends with 3 if some case has no time: out of memory, say. That is a row, and no reason to stop.
SOME_CASE_HAS_NO_TIME = 3
# pytest ends with 5 if it has nothing to run: all tests have passed before.
NO_TEST_IS_LEFT = 5
# After Ctrl-C, a sweep writes its report. Other parts have written all that they keep.
SWEEP_GRACE_S, OTHERS_GRACE_S = 25, 8


@dataclass(frozen=True)
class Part:
    """One command of `.ci/cuda`.

    The part begins if `least_s` seconds are left, and gets Ctrl-C after `most_s`. On an H100, it is estimated to take
    `estimated_s`. `{folder}` in the command and in the variables is the part's own folder. The files that match `kept`
    there grow while it measures. The part is done once the command has ended with a status in `accepts` and has
    written `evidence`.
    """

    name: str
    shows: str
    estimated_s: int
    least_s: int
    most_s: int
    command: tuple[str, ...]
    kept: str
    evidence: str
    accepts: tuple[int, ...] = (0,)
    variables: tuple[tuple[str, str], ...] = ()
    in_checkout: bool = False
    grace_s: int = OTHERS_GRACE_S
    printed_lines: int = 30


_ON_GPU = ("device=cuda", "dtype=bfloat16")
# An interval needs two trials of a case.
_TWO_ROUNDS = ("precision.min_rounds=2", "precision.max_rounds=2", "precision.patience_s=0")
_ONE_ROUND = ("precision.min_rounds=1", "precision.max_rounds=1", "precision.patience_s=0")
_CONTRACT = "tests/core/trial/timing/cuda/test_contract.py"
_GPU_TESTS = "tests/core/trial/test_cuda.py"
_ADAPTER_TESTS = "tests/impls/adapters/test_on_gpu.py"
# All files with tests that are marked `cuda`. Collecting every test would take longer than running these.
FILES_WITH_GPU_TESTS = (_CONTRACT, _GPU_TESTS, _ADAPTER_TESTS)
_EVERY_LAYER = f"{_GPU_TESTS}::test_a_layer_is_verified_weighed_and_timed_on_the_gpu"
_COMPILED_AND_FUSED = "on_the_gpu and (compiled or flex or varlen or nested or paged or cudnn or gru)"


def _harness(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "harness", *words)


def _sweep(
    name: str,
    shows: str,
    seconds: tuple[int, int, int],
    *words: str,
    accepts: tuple[int, ...] = (0, SOME_CASE_HAS_NO_TIME),
) -> Part:
    command = _harness("sweep", *words, "out={folder}/run")
    return Part(name, shows, *seconds, command, "run/rows/*", "run/summary.csv", accepts=accepts, grace_s=SWEEP_GRACE_S)


def _pytest(*arguments: str) -> tuple[str, ...]:
    # Warnings of other versions of the packages are no reason to fail.
    return (sys.executable, "-m", "pytest", "-rs", "-W", "default", "-p", "no:cacheprovider", *arguments)


def _bench(name: str, shows: str, seconds: tuple[int, int, int], evidence: str, settings: str, *chosen: str) -> Part:
    """A file of `benchmarks/` with settings of its own. What it has recorded is not measured again."""
    pairs = [setting.split("=") for setting in (*settings.split(), "RECORDS={folder}")]
    variables = tuple((f"HARNESS_BENCH_{setting}", value) for setting, value in pairs)
    command = _pytest("-s", "-q", *chosen)
    return Part(name, shows, *seconds, command, "*.jsonl", evidence, (0,), variables, True, printed_lines=40)


def _tests(name: str, shows: str, seconds: tuple[int, int, int], *chosen: str) -> Part:
    """Tests that are marked `cuda`. Those that have passed are not run again."""
    command = _pytest("-v", "-m", "cuda", "-p", "gpu_evidence.passed_tests", *chosen)
    kept, variables = "passed.txt", (("GPU_EVIDENCE_PASSED", "{folder}/passed.txt"),)
    return Part(name, shows, *seconds, command, kept, kept, (0, NO_TEST_IS_LEFT), variables, in_checkout=True)


# The first six fit into thirteen minutes of an H100.
_FIRST = (
    Part(
        "facts",
        "the machine: delays of NVML, start of a process, kernels that torch chooses, compiler and headers",
        *(25, 10, 75),
        (sys.executable, "-m", "gpu_evidence.machine_facts", "{folder}/facts.json"),
        *("facts.json", "facts.json"),
        printed_lines=45,
    ),
    _sweep(
        "smoke",
        "two cases from the first process to the report: a broken link shows here with its reason",
        (25, 25, 90),
        *_ON_GPU,
        *("impl=attention.fused,rnn.torch", "seq_len=512", "d_model=1024"),
        *(*_ONE_ROUND, "--no-plots"),
        accepts=(0,),
    ),
    _sweep(
        "default",
        "the default sweep at one width: five layers, five lengths, tables, cost models, plots and the page",
        (300, 60, 400),
        *(*_ON_GPU, "d_model=1024"),
    ),
    _bench(
        "clock",
        "twelve calls timed by this harness, by do_bench and by CUPTI",
        (90, 40, 170),
        *("clock.jsonl", "TURNS=3", "benchmarks/bench_do_bench.py"),
    ),
    _sweep(
        "table1",
        "Table 1 of Attention Is All You Need at d = 256: the counted claims, then times",
        (165, 50, 240),
        *("paper=vaswani2017_table1", "scale=cpu", "device=cuda", "d_model=256"),
        *_TWO_ROUNDS,
        "--no-plots",
    ),
    _bench(
        "gate",
        "verdicts of compare on a planted slow-down of 5 % and on none, in one comparison",
        (185, 50, 400),
        "comparisons.jsonl",
        "DEVICE=cuda ALIKE=0 PLANTED=1 BELOW=0 CASES=2 GENERATION=1",
        *("tests/extras/compare/bench_gate.py", "-k", "earnest"),
    ),
)
_SHORT = (
    Part(
        "record",
        "what launches, events, the queue, the cache and the clock of this GPU cost, to simulate it",
        *(20, 20, 70),
        (sys.executable, "-m", "core.trial.timing.cuda.recorder", "-o", "{folder}/record.json"),
        *("record.json", "record.json"),
    ),
    _tests(
        "contract",
        "this GPU and the simulated one obey the same rules",
        (70, 30, 150),
        *(_CONTRACT, _GPU_TESTS, "--deselect", _EVERY_LAYER),
    ),
    Part(
        "peaks",
        "the peak rates of the machine, then its noise floor",
        *(90, 70, 200),
        _harness("calibrate", *_ON_GPU, *_ONE_ROUND),
        *("../results/calibration.json", "../results/calibration.json"),
        printed_lines=45,
    ),
    _sweep(
        "flash2",
        "a quarter of the settings of FlashAttention-2",
        (100, 60, 300),
        *("paper=flashattention2", "mask=causal", "num_heads=16"),
        *(*_ONE_ROUND, "--no-plots"),
    ),
    _tests(
        "layers",
        "compiled and fused layers are right on this GPU",
        (300, 30, 300),
        *(_GPU_TESTS, "-k", _COMPILED_AND_FUSED),
    ),
)
_WIDTHS = _sweep("widths", "the default sweep at both widths", (720, 60, 1800), *_ON_GPU)
_ALL_TESTS = _tests("tests", "every layer and every test that needs a GPU", (960, 60, 2400), *FILES_WITH_GPU_TESTS)


def _family(name: str, layers: str, estimated_s: int) -> Part:
    shows = f"every layer of the family {name} at one width"
    words = ("preset=ladder", "d_model=1024", f"impl={layers}")
    return _sweep(f"ladder.{name}", shows, (60 + estimated_s, 60, 3 * estimated_s), *_ON_GPU, *words)


_LADDER = (
    _family("attention", '"attention.[!u]*"', 1300),  # as Hydra wants a pattern quoted
    _family("rnn", "rnn.*", 700),
    _family("others", "conv.*,encoder.naive,encoder.fused,decoder.naive,decoder.fused", 500),
)
# The cases of a paper that torch alone can measure. A paper without a number is taken to have 30.
_CASES = {
    **{"flashattention1": 8, "flashattention2": 48, "flashattention3": 24, "katharopoulos2020": 12, "lra2021": 12},
    **{"mamba2": 18, "mamba2023_scan": 24, "mingru2024": 21, "vaswani2017_table1": 168, "xlstm2025_tfla": 32},
}


def _paper(name: str) -> Part:
    estimated_s = 30 + 14 * _CASES.get(name, 30)
    seconds = (estimated_s, 60, 3 * estimated_s)
    return _sweep(f"papers.{name}", f"the published settings of {name}", seconds, f"paper={name}")


# Every part, the most valuable first.
PARTS = (*_FIRST, *_SHORT, _WIDTHS, *_LADDER, *map(_paper, PAPERS), _ALL_TESTS)


# In a rehearsal, a slow simulated GPU measures small sizes. A trial lasts a number of seconds of the GPU, and the
# simulation takes long for each kernel in them. Figures of a rehearsal mean nothing.
SIMULATED_GPU = {
    "spread": 0.002,
    "nvml": False,
    "hardware": {"bytes_per_s": 5e7},
    "flops_per_s": {"float64": 2e7, "float32": 1e8, "bfloat16": 1e11, "float16": 1e11},
}
# The simulation computes on the CPU. Where other jobs run, two threads wait ten times as long for each other.
_SMALL = (
    *("threads=1", "precision.trial_s=0.005", "seq_len=[16,32]", "d_model=16", "num_heads=2", "batch_size=1"),
    *_ONE_ROUND,
)
# On a GPU, FlashAttention takes half precision alone.
_ONE_LENGTH = ("scale=cpu", "device=cuda", "dtype=bfloat16", "points=null", "num_heads=1")
# What a benchmark repeats on a GPU, its rehearsal does once.
_ONCE = ("HARNESS_BENCH_CASES", "HARNESS_BENCH_TURNS")
# Parts whose layers are slow in the simulation, or too many, rehearse one layer.
_LAYER = {
    **dict.fromkeys(("default", "widths", "ladder.attention", "peaks"), "attention.fused"),
    "ladder.rnn": "rnn.torch",
    "ladder.others": "conv.conv1d",
    **dict.fromkeys(("flash2", "papers.flashattention2", "papers.flashattention3"), "sdpa.flash"),
    **dict.fromkeys(("table1", "papers.vaswani2017_table1"), "sdpa.naive"),
    "papers.katharopoulos2020": "attention.linear.recurrent",
    "papers.lra2021": "encoder6.fused",
    "papers.mamba2": "linear.ssd.chunked",
    "papers.mamba2023_scan": "rnn.linear_scan",
    "papers.mingru2024": "rnn.mingru.parallel",
    "papers.xlstm2025_tfla": "attention.fused.flash",
}
_CHOSEN_TESTS = {
    "contract": (
        _CONTRACT,
        f"{_GPU_TESTS}::test_every_fact_of_a_timed_call_is_told",
        f"{_GPU_TESTS}::test_the_bytes_that_are_requested_in_a_block_are_counted_exactly",
    ),
    "layers": (f"{_EVERY_LAYER}[sdpa.paged]",),
    "tests": (f"{_EVERY_LAYER}[attention.fused]",),
}


# These start as on hardware: Python imports all packages anew. The other parts import the same ones.
_STARTED_ANEW = ("facts", "smoke", "record", "contract")
_NO_ORIGIN = ("HARNESS_TEST_ORIGIN", "")


def rehearsed(part: Part) -> Part:
    """The same part at sizes that a simulated GPU measures within seconds. All its cases must have a time."""
    small = _at_small_sizes(part)
    return replace(small, variables=(*small.variables, _NO_ORIGIN)) if part.name in _STARTED_ANEW else small


def _at_small_sizes(part: Part) -> Part:
    if part.name in _CHOSEN_TESTS:
        return replace(_tests(part.name, part.shows, (5, 1, 60), *_CHOSEN_TESTS[part.name]))
    if "harness" not in part.command:
        once = [(name, "1" if name in _ONCE else value) for name, value in part.variables]
        return replace(part, estimated_s=5, least_s=1, variables=tuple(once))
    words = [*part.command, *_SMALL]
    if any(word.startswith("paper=") for word in part.command):
        words += _ONE_LENGTH
    if part.name in _LAYER:
        words.append(f"impl={_LAYER[part.name]}")
    if part.name == "papers.lra2021":  # training six blocks takes long
        words.append("mode=forward")
    if part.name != "default":  # which alone draws plots, and has more than one length
        words.append("seq_len=16")
        if "sweep" in words:
            words.append("--no-plots")
    # Of several `key=value` with the same key, the last one stays.
    last = {word.partition("=")[0]: word for word in words}
    return replace(part, estimated_s=5, least_s=1, command=tuple(last.values()), accepts=(0,))


@dataclass(frozen=True)
class Expectation:
    """How long each part takes, where that is from, and which parts were measured."""

    source: str
    seconds: dict[str, float]
    measured: frozenset[str] = frozenset()


def expectation(parts: list[Part], published: Path | None) -> Expectation:
    """The durations that real GPUs have shown, by the records of `published`; estimates where there is none.

    Of a part that several GPUs have run, the latest record counts.
    """
    estimates = {part.name: float(part.estimated_s) for part in parts}
    if published is None:
        return Expectation("estimates for a simulated GPU", estimates)
    records = [json.loads(file.read_text()) for file in published.glob(f"*/{DURATIONS}")]
    if not records:
        return Expectation("estimates for an H100, none of them measured", estimates)
    records.sort(key=lambda record: record["date"])
    seconds: dict[str, float] = {}
    for record in records:
        seconds |= record["seconds"]
    gpus = " and ".join(record["gpu"] for record in reversed(records))
    source = f"as measured on {gpus}, estimates for other parts"
    return Expectation(source, estimates | seconds, frozenset(seconds))
