"""A run to export, written once."""

from pathlib import Path

import pytest
from attention_run import make_run
from extras.export.exports import publish


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="session")
def published(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(run, tmp_path_factory.mktemp("published") / "run")
