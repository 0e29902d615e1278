"""Fixtures that tests of several packages share."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked_servers import ADDRESS, WITH_LAYERS, Origin
from screens.text_file import TextFile
from syrupy import SnapshotAssertion

from harness.core.model.sweep_axes import Case
from harness.core.run import fork_client
from harness.core.run.executor import Executor

# A shell starts a background job with SIGINT ignored, and child processes inherit that. This process ignores SIGINT by
# a handler instead. Child processes do not inherit a handler, so tests can interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, lambda number, frame: None)

# Idle threads of torch and OpenBLAS spin for a while before they sleep. Beside other workers, that takes CPUs from
# whole commands, which took twice as long. The variables are read when a process of a test loads the libraries.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# `sitecustomize` of the simulated GPU does the same where pytest does not import the harness by itself.
if os.environ.get("HARNESS_SIMULATED_CUDA"):
    fork_client.subprocess = Origin(WITH_LAYERS, os.environ.get(ADDRESS) or None).subprocess()

_HERE = Path(__file__).parent
# Proofs that start whole commands or many processes, or that compile layers: paths below tests/, some with a test.
_SLOW = (
    *("core/faults/", "extras/cluster/slurm/", "own_layer/", "known_cost/", "impls/compiled/", "test_checkout.py"),
    *("extras/attention/test_attention_map_command.py", "extras/cluster/test_launched.py"),
    *(f"extras/calibrate/test_{name}.py" for name in ("beyond_peak", "calibrate_command", "calibrate_gpu", "noise")),
    *("extras/compare/test_compare_command.py", "extras/compare/test_turn_trial.py"),
    *("extras/compare/paired/test_error_rates.py", "extras/papers/test_papers_command.py"),
    # Whole commands.
    *(f"cli/test_{name}.py" for name in ("changed_code", "command_lines")),
    *(f"cli/test_{name}.py" for name in ("end_to_end", "going_on", "steady")),
    *(f"extras/pytest_plugin/test_{name}.py" for name in ("elsewhere", "measuring", "quiet")),
    *(
        "study/check/test_planted.py",
        "study/report/test_background_plots.py",
        "study/report/test_build.py",
        "study/report/test_reproduce.py",
    ),
    "core/results/test_bench_registry.py",
    # A browser.
    *(f"study/report/html/test_{name}in_browser.py" for name in ("", "evil_", "crowded_", "layout_", "own_axes_")),
    # Many trials in processes of their own, or many calls of a layer.
    *(f"core/run/test_{name}.py" for name in ("executor", "executor_compiled", "own_module")),
    *(f"core/trial/test_{name}.py" for name in ("compiler", "output_dtype", "own_memory")),
    *(f"core/trial/counts/test_{name}.py" for name in ("facts", "memory_split", "unseen")),
    *("core/trial/timing/test_last_call.py", "impls/test_on_another_device.py"),
    *("core/trial/timing/cuda/test_sample.py", "core/trial/timing/cuda/test_planted_faults.py", "simulated_cuda/"),
    # Whole commands beside quick tests.
    *("cli/test_letters.py::test_a_layer_is_measured", "cli/test_usage.py::test_a_reader_that_goes_away"),
    *("cli/test_usage.py::test_a_dry_run_prints", "extras/export/test_export_command.py::test_a_report_is_made"),
    *(
        "extras/export/test_pytest_benchmark.py",
        "study/report/plots/test_draw.py",
        "study/report/plots/test_ladder.py::test_a_run_of_many",
    ),
    # Every other block, and a second reduced precision.
    "impls/test_layers.py::test_a_block_around_any_other",
    # Simulations of statistics.
    *(
        "core/stats/test_coverage.py",
        *(f"core/stats/test_noise_prior.py::test_{name}" for name in ("95_in_100", "they_do", "of_three_cases")),
        "study/laws/test_prediction.py",
    ),
    *(
        "study/laws/test_piecewise.py::test_a_law_that_only_bends",
        "study/laws/test_piecewise.py::test_a_law_of_four_terms",
    ),
    *("study/laws/test_fit.py::test_the_intervals", "study/laws/test_exponent.py::test_the_interval"),
    *("core/stats/test_bimodality.py::test_noise", "core/stats/test_stopping.py::test_a_case_is_precise_when"),
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without a chosen test: importing and collecting all of them takes a worker 20 s."""
    if collection_path.suffix != ".py" or not collection_path.is_relative_to(_HERE):
        return None
    name = collection_path.relative_to(_HERE).as_posix()
    all_slow = name.startswith(_SLOW)
    if config.option.markexpr == "not slow":
        return True if all_slow else None
    if config.option.markexpr == "slow":
        some_slow = any(one.startswith(name) for one in _SLOW) or "mark.slow" in collection_path.read_text("utf-8")
        return None if all_slow or some_slow else True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests in `_SLOW` as slow."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            name = f"{item.path.relative_to(_HERE).as_posix()}::{item.name}"
            if name.startswith(_SLOW):
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Set aside what imports and collection made."""
    compilation = sys.modules.get("harness.core.trial.compilation")
    if compilation is not None:
        compilation.triton_kernels()  # it notes them; frozen ones are not found otherwise
    _set_aside()


@pytest.fixture(autouse=True, scope="module")
def _what_earlier_tests_made_is_set_aside() -> None:
    _set_aside()


def _set_aside() -> None:
    """Hide all objects from the garbage collector, as a fork server does.

    Each measurement begins with a garbage collection, and looks for memory that stays in all that is left. With a
    million objects of torch and of earlier tests, that takes half a second, a dozen times in a trial.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _gradients_as_before() -> Iterator[None]:
    """Undo what a trial in this process leaves behind: most trials turn gradients off for good."""
    _turn_gradients_on()
    yield
    _turn_gradients_on()


def _turn_gradients_on() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_grad_enabled(True)


@pytest.fixture(scope="session")
def runner() -> Iterator[Executor]:
    """A runner of real, short trials, with a memory limit of 512 MiB and enough time to reach it."""
    with Executor(seed=0, trial_s=0.01, timeout_s=30, memory_limit=2**29) as started:
        yield started


@pytest.fixture(scope="session")
def origin() -> Iterator[Origin]:
    made = Origin()
    yield made
    made.close()


@pytest.fixture(scope="module")
def forked_servers(origin: Origin) -> Iterator[None]:
    """Fork the fork servers of this process from `origin` instead of starting them. For tests of their use."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":
            patch.setattr(fork_client, "subprocess", origin.subprocess())
        yield


@pytest.fixture
def case() -> Case:
    return Case("attention.fused", seq_len=32, d_model=16, num_heads=2)


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """Compare with a text file in `__snapshots__/`. `pytest --snapshot-update` writes the file anew."""
    return snapshot.use_extension(TextFile)
