"""In a stranger's test-suite: beside other workers, as benchmarks, and with modules that no import finds."""

from pathlib import Path

from extras.pytest_plugin.suite import outcomes, pytest_in

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "pytest.md"
LAYERS = '''
from torch import nn


class Mixing(nn.Module):
    """Every token becomes a mixture of all."""

    def __init__(self, d_model):
        super().__init__()

    def forward(self, x):
        return (x @ x.mT).softmax(dim=-1) @ x
'''
TESTS = """
def test_facts(scaling):
    law = scaling(Mixing, over=(16, 32, 64), d_model=16)
    assert law.flops.follows("4n²d")
    assert law.memory.is_quadratic


def test_time(scaling):
    assert scaling(Mixing, over=(16, 32, 64), d_model=16).exponent < 3


def test_memory_that_grew(scaling):
    assert scaling(Mixing, over=(16, 32, 64), d_model=16).memory.exponent <= 1.0
"""
# Nothing to import. The smallest sizes: what the times are does not matter here.
BENCHMARKS = """
import pytest


def test_time(scaling):
    law = scaling("rnn.elman", over=(4, 8, 16), d_model=8)
    assert -5 < law.exponent < 5
    assert law.exponent.lo <= law.exponent.hi
    assert law.time.at(seq_len=16) == law.time.values[16] > 0
    again = scaling("rnn.elman", over=(4, 8, 16), d_model=8)
    assert again.time.values == law.time.values  # measured once a session


def test_both(scaling, benchmark):
    assert benchmark(lambda: 1) == 1
    assert scaling("rnn.elman", over=(4, 8, 16), d_model=8).flops.follows("4nd²")


def test_neither():
    pass


class TestOfTheirOwn:
    @pytest.fixture
    def scaling(self):
        return 2

    def test_own(self, scaling):
        pass
"""


def test_beside_other_workers_facts_are_asserted_and_time_is_refused(tmp_path: Path) -> None:
    # Two modules of one name, as only importlib's mode allows, one of them in a package with a module beside it.
    package = tmp_path / "unfindable"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "layers.py").write_text(LAYERS)
    (package / "test_it.py").write_text("from .layers import Mixing\n" + TESTS)
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "test_it.py").write_text(LAYERS + TESTS)
    example = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    ours = example.replace("from my_package import", "from impls.attention.fused import FusedAttention as")
    (tmp_path / "test_page.py").write_text(ours)
    said = pytest_in(tmp_path, "--import-mode=importlib", "-n", "2")
    assert said.count("\nPASSED ") == 3
    passed = dict.fromkeys(("test_facts", "test_its_kernel"), "passed")
    assert outcomes(said) == passed | {"test_memory_that_grew": "failed"}  # test_my_layer asks for time at its end
    assert "3 skipped" in said
    assert "no time is taken beside other workers of pytest-xdist (2), which it would measure too" in said
    assert "run this test with -n 0; Mixing is verified, and its facts can be asserted all the same" in said
    assert "assert 2.00 <= 1.0" in said or "assert 1.9" in said
    assert "<memory of Mixing: 8 n²" in said
    assert "harness/extras/pytest_plugin" not in said  # a failure is shown at the test's own line


def test_what_asks_for_scaling_is_a_benchmark_and_time_is_taken(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(BENCHMARKS)
    said = pytest_in(tmp_path, "--benchmark-only", "-v")
    assert outcomes(said) == {"test_time": "passed", "test_both": "passed"}
    assert "2 skipped" in said
    assert "rnn.elman  forward  flops along seq_len: 256 n, exponent 1.00" in said
