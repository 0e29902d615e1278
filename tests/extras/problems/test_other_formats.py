"""A format of problem files that a package of one's own adds, by an entry point."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from harness.core.config import compose
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.extras.problems import formats
from harness.extras.problems.trials.layer import layer_of

# Files of this format have a line for each size, and stand for a product of a matrix with itself.
PACKAGE = """
from harness.core.trial.layer_inputs import Input
from harness.extras.problems.formats import FileAxes, Format
from harness.extras.problems.trials.problem import Problem, Shapes
import torch


class Squares(Format):
    problem = "squares:Square"

    def file_at(self, path):
        return path if path.suffix == ".square" else None

    def axes(self, file):
        name, size = file.read_text().split()
        return FileAxes({name: name}, {name: int(size)})

    def is_solution(self, layer):
        return False


class Product(torch.nn.Module):
    def forward(self, x):
        return x @ x


class Square(Problem):
    model = "square"
    module_names = ["squares"]

    def model_class(self, sizes):
        return Product

    def model_at(self, sizes):
        return Product()

    def inputs_at(self, sizes):
        side = sizes["side"]
        return [torch.randn(side, side)]

    def shapes(self, sizes, letters):
        square = (letters["side"], letters["side"])
        return Shapes((Input("x", square, "", True, "normal"),), square)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "squares.py").write_text(PACKAGE)
    metadata = tmp_path / "squares-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: squares\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[attn_harness.problem_formats]\nsquares = squares:Squares\n")
    (tmp_path / "mine.square").write_text("side 8\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    formats.formats.cache_clear()
    yield tmp_path / "mine.square"
    formats.formats.cache_clear()
    layer_of.cache_clear()


def test_a_format_that_cannot_be_loaded_is_named(installed: Path) -> None:
    (installed.parent / "squares.py").unlink()
    with pytest.raises(UsageError, match="the format of problem files squares:Squares cannot be loaded: No module"):
        compose([f"impl={installed}"], for_sweep=True)


def test_a_package_adds_a_format_by_an_entry_point(installed: Path) -> None:
    config = compose([f"impl={installed}", "layer.side=4,16"], for_sweep=True)
    assert config.axes["impl"] == (f"problem-file:{installed}",)
    layer = layer_of(str(installed))
    assert layer.axes == {"side": ("s", 8)}
    case = Case(config.axes["impl"][0], seq_len=1, d_model=1, num_heads=1, options="side=16")
    (x,) = layer.draw_inputs(case)
    torch.testing.assert_close(layer(side=16)(x), x @ x)
