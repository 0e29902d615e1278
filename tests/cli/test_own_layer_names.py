"""The error about a user's layer that cannot be loaded names their file and class, never an internal name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import layer_lookup
from harness.cli.commands import main

LAYERS = """\
from pathlib import Path
class Good: ...
class Other(Good): ...
class _Hidden: ...
def function(): ...
"""


@pytest.fixture(scope="module", autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    here = tmp_path_factory.mktemp("own")
    (here / "mine_alone.py").write_text(LAYERS)
    (here / "mine_broken.py").write_text("class Good(:\n")
    (here / "mine_package").mkdir()
    (here / "mine_package" / "__init__.py").touch()
    (here / "mine_package" / "layers.py").write_text(LAYERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.syspath_prepend(here)
        yield here


@pytest.mark.parametrize(
    ("impl", "said"),
    [
        ("./mine_alone.py:Nope", "./mine_alone.py has no class 'Nope'; it has Good, Other"),
        ("mine_alone:Nope", "mine_alone has no class 'Nope'; it has Good, Other"),
        ("./mine_alone.py:Good.Inner", "./mine_alone.py has no class 'Good.Inner'; it has Good, Other"),
        ("./mine_alone.py:function", "./mine_alone.py:function is not a class; it has Good, Other"),
        ("mine_package/layers.py:Nope", "mine_package/layers.py has no class 'Nope'; it has Good, Other"),
        ("mine_package/__init__.py:Nope", "mine_package/__init__.py has no class 'Nope'; it has no class at all"),
        ("./mine_alon.py:Good", "there is no file mine_alon.py; did you mean 'mine_alone.py'?"),
        ("absent/layers.py:Good", "there is no file absent/layers.py"),
        ("./mine_broken.py:Good", "invalid syntax (mine_broken.py, line 1)"),
        ("mine_broken:Good", "invalid syntax (mine_broken.py, line 1)"),
        ("mine_absent:Good", "No module named 'mine_absent'"),
    ],
)
def test_a_layer_that_is_not_there_is_told_in_the_users_words(impl: str, said: str) -> None:
    with pytest.raises((AttributeError, TypeError, ImportError, FileNotFoundError, SyntaxError)) as caught:
        layer_lookup.load_class(impl)
    assert str(caught.value) == said


def test_a_sweep_tells_it_in_one_line_and_writes_nothing(capsys: pytest.CaptureFixture[str], elsewhere: Path) -> None:
    assert main(["sweep", "impl=./mine_alone.py:Nope", "out=run"]) == 2
    said = "AttributeError: ./mine_alone.py has no class 'Nope'; it has Good, Other"
    assert capsys.readouterr().err == f"harness: impl './mine_alone.py:Nope': {said}\n"
    assert not (elsewhere / "run").exists()
