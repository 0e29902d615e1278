"""The error about a user's layer that cannot be loaded names their file and class, never an internal name."""

from pathlib import Path

import pytest
from screens.test_misuse import LAYERS
from screens.text_file import titled
from syrupy import SnapshotAssertion

from harness import layer_lookup

IMPLS = [
    *("./mine_alone.py:Nope", "mine_alone:Nope", "./mine_alone.py:Good.Inner", "./mine_alone.py:function"),
    *("mine_package/layers.py:Nope", "mine_package/__init__.py:Nope", "./mine_alon.py:Good", "absent/layers.py:Good"),
    *("./mine_broken.py:Good", "mine_broken:Good", "mine_absent:Good"),
]


def test_a_layer_that_is_not_there_is_told_in_the_users_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    (tmp_path / "mine_alone.py").write_text(LAYERS)
    (tmp_path / "mine_broken.py").write_text("class Good(:\n")
    (tmp_path / "mine_package").mkdir()
    (tmp_path / "mine_package" / "__init__.py").touch()
    (tmp_path / "mine_package" / "layers.py").write_text(LAYERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    told = {}
    for impl in IMPLS:
        with pytest.raises((AttributeError, TypeError, ImportError, FileNotFoundError, SyntaxError)) as caught:
            layer_lookup.load_class(impl)
        told[impl] = f"{caught.type.__name__}: {caught.value}"
    assert titled(told) == snapshot
