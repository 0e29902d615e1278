"""What pytest loads, in every test-suite beside which the harness is installed: so it imports nothing, and says
nothing, until a test asks for one of its fixtures.
"""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from harness.pytest_plugin.measuring import Measuring
    from harness.pytest_plugin.scaling import LayerFactsOf, Scaling

_MEASURING: pytest.StashKey["Measuring"] = pytest.StashKey()


@pytest.fixture
def scaling(pytestconfig: pytest.Config) -> "Scaling":
    """How a layer's time, memory and work grow: `law = scaling(MyLayer, axis="seq_len")`, then `law.exponent`,
    `law.memory.exponent`, `law.flops.at(seq_len=256)`, `law.depth.is_constant`. Time is only measured if asked for.
    """
    measuring = _measuring(pytestconfig)
    with _quiet():
        from harness.pytest_plugin.scaling import Scaling
        from harness.pytest_plugin.timing_allowed import why_not

        return Scaling(measuring, why_not(pytestconfig))


@pytest.fixture
def layer_facts(pytestconfig: pytest.Config) -> "LayerFactsOf":
    """What one call of a layer costs, exactly: `layer_facts(MyLayer, seq_len=512, d_model=64).peak_bytes`."""
    measuring = _measuring(pytestconfig)
    with _quiet():
        from harness.pytest_plugin.scaling import LayerFactsOf

        return LayerFactsOf(measuring)


def _measuring(config: pytest.Config) -> "Measuring":
    """The one for all tests of the session. The process that it forks from starts before the imports that follow."""
    if _MEASURING not in config.stash:
        with _quiet():
            from harness.pytest_plugin.measuring import Measuring

            config.stash[_MEASURING] = Measuring()
    return config.stash[_MEASURING]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What pandas deprecates while it is imported is not for the tests of a suite that makes errors of warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Under pytest-benchmark's `--benchmark-only`, a test that asks for `scaling` is a benchmark, and runs."""
    if not config.getoption("benchmark_only", False):
        yield
        return
    ours = {item: list(item.own_markers) for item in items if _asks_for_scaling(item)}
    yield
    for item, before in ours.items():
        item.own_markers[:] = [mark for mark in item.own_markers if mark in before or not _is_other(mark)]


def _asks_for_scaling(item: pytest.Item) -> bool:
    """Whether the test asks for this plugin's fixture, and not for one of that name which the suite has itself."""
    info = getattr(item, "_fixtureinfo", None)
    found: Sequence[pytest.FixtureDef] = info.name2fixturedefs.get("scaling", ()) if info is not None else ()
    return bool(found) and getattr(found[-1].func, "__module__", "") == __name__


def _is_other(mark: pytest.Mark) -> bool:
    return mark.name == "skip" and "--benchmark-only" in str(mark.kwargs.get("reason", ""))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """With -v, the laws that were found, if any were."""
    measuring = config.stash.get(_MEASURING, None)
    if measuring is not None and measuring.told and config.getoption("verbose", 0) > 0:
        terminalreporter.section("scaling")
        for what, law in measuring.told.items():
            terminalreporter.write_line(f"{what}: {law}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """However the session ends, no process of ours outlives it."""
    measuring = config.stash.get(_MEASURING, None)
    if measuring is not None:
        measuring.close()
