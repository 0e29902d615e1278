"""A pytest plugin: note each test that passes in the file GPU_EVIDENCE_PASSED, and leave out those that it holds."""

import os
from pathlib import Path

import pytest

_PASSED = Path(os.environ["GPU_EVIDENCE_PASSED"])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has passed before."""
    passed = set(_PASSED.read_text().splitlines()) if _PASSED.exists() else set()
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that has passed."""
    if report.when == "call" and report.passed:
        with _PASSED.open("a") as file:
            file.write(f"{report.nodeid}\n")
