"""A run to export, written once."""

from pathlib import Path

import pytest
from export.exports import make_run, publish


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="session")
def published(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(run, tmp_path_factory.mktemp("published") / "run")
