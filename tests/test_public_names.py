"""The names of the package `harness`, to which extras add."""

import subprocess
import sys

import pytest

import harness
from harness.core.model.errors import UsageError


def test_a_name_that_an_extra_adds_is_an_attribute_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "harness.core.model.extra_tables.entries", lambda table: [("mistake", "harness.core.model.errors:UsageError")]
    )
    assert harness.mistake is UsageError
    assert {"mistake", "__version__"} <= set(dir(harness))


def test_a_name_that_no_extra_adds_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.core.model.extra_tables.entries", lambda table: [])
    with pytest.raises(AttributeError, match=r"^module 'harness' has no attribute 'load', and no package in harness/"):
        harness.load("run")


def test_importing_harness_costs_next_to_nothing() -> None:
    program = "import sys, harness; print(sorted({'numpy', 'pandas', 'torch', 'scipy', 'yaml'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"
