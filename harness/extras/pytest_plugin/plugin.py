"""The pytest plugin: the fixtures `scaling` and `layer_facts`, and when a test session may measure times.

pytest loads this module in every test suite that has the harness installed. The module imports nothing else of the
harness, and prints nothing, until a test requests one of its fixtures.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .scaling import LayerFactsOf, Scaling
    from .shared_measurements import PytestSession


# Imports of the harness ignore pandas' deprecation warnings: a test suite may turn warnings into errors.
_MEASURING: pytest.StashKey["PytestSession"] = pytest.StashKey()


@pytest.fixture
def scaling(pytestconfig: pytest.Config) -> "Scaling":
    """How a layer's time, memory and FLOPs grow: `law = scaling(MyLayer, axis="seq_len")`.

    Then assert on `law.exponent`, `law.memory.exponent`, `law.flops.at(seq_len=256)` or `law.depth.is_constant`. Time
    is measured only if the test uses it.
    """
    measuring = _measuring(pytestconfig)
    with warnings.catch_warnings(action="ignore"):
        from .scaling import Scaling

        return Scaling(measuring, why_timing_is_refused(pytestconfig))


@pytest.fixture
def layer_facts(pytestconfig: pytest.Config) -> "LayerFactsOf":
    """The exact costs of one call of a layer: `layer_facts(MyLayer, seq_len=512, d_model=64).peak_bytes`."""
    measuring = _measuring(pytestconfig)
    with warnings.catch_warnings(action="ignore"):
        from .scaling import LayerFactsOf

        return LayerFactsOf(measuring)


def _measuring(config: pytest.Config) -> "PytestSession":
    """The measurements that all tests of the session share. Their fork server starts before later imports."""
    if _MEASURING not in config.stash:
        with warnings.catch_warnings(action="ignore"):
            from .shared_measurements import PytestSession

            config.stash[_MEASURING] = PytestSession()
    return config.stash[_MEASURING]


@pytest.hookimpl(hookwrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Count tests that use `scaling` as benchmarks under pytest-benchmark's `--benchmark-only`.

    They are not skipped then.
    """
    only = config.getoption("benchmark_only", False)
    ours = {item: list(item.own_markers) for item in items if only and _asks_for_scaling(item)}
    yield
    for item, before in ours.items():
        item.own_markers[:] = [
            mark
            for mark in item.own_markers
            if mark in before or mark.name != "skip" or "--benchmark-only" not in str(mark.kwargs.get("reason"))
        ]


def _asks_for_scaling(item: pytest.Item) -> bool:
    """Whether the test uses this plugin's fixture, and not the suite's own fixture of that name."""
    info = getattr(item, "_fixtureinfo", None)
    definitions: Sequence[pytest.FixtureDef] = info.name2fixturedefs.get("scaling", ()) if info is not None else ()
    return bool(definitions) and getattr(definitions[-1].func, "__module__", "") == __name__


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter", config: pytest.Config) -> None:
    """With -v, print the cost models that were found."""
    measuring = config.stash.get(_MEASURING, None)
    if measuring is not None and measuring.summary and config.getoption("verbose", 0) > 0:
        terminalreporter.section("scaling")
        for what, law in measuring.summary.items():
            terminalreporter.write_line(f"{what}: {law}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """End all processes of the harness, however the session ends."""
    measuring = config.stash.get(_MEASURING, None)
    if measuring is not None:
        measuring.close()


def why_timing_is_refused(config: pytest.Config) -> str | None:
    """Why no time may be measured, and what to do about it; None if it may.

    This concerns times only. Facts are exact, and every session may take them.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        return (
            f"no time is taken beside other workers of pytest-xdist ({workers}), which it would measure too: "
            "run this test with -n 0"
        )
    only = config.getoption("benchmark_only", False)
    if config.getoption("benchmark_skip", False) and not only:
        return "no time is taken: --benchmark-skip was used"
    if config.getoption("benchmark_disable", False) and not config.getoption("benchmark_enable", False):
        return "no time is taken: --benchmark-disable was used"
    return None
