"""The error about a user's layer that cannot be loaded names their file and class, never an internal name."""

from pathlib import Path

import pytest
from screens.test_misuse import LAYERS
from screens.text_file import titled
from syrupy import SnapshotAssertion

from harness.core.layers import layer_lookup
from harness.core.model.errors import UsageError

GIVE = "give a class or function of it, as impl="
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


@pytest.mark.parametrize(
    ("impl", "meant"),
    [
        ("mine_alone.Good", "; did you mean 'mine_alone:Good'?"),
        ("mine_alone.Godo", "; did you mean 'mine_alone:Good'?"),
        ("mine_package.layers.Good", "; did you mean 'mine_package.layers:Good'?"),
        ("mine_alone.Bad", f"; {GIVE}mine_alone:Good: it has Good, Other, function"),
        ("mine_alone", f"; {GIVE}mine_alone:Good: it has Good, Other, function"),
        (
            "mine_alone.py",
            f"; {GIVE}./mine_alone.py:Good: it has Good, Other, function",
        ),
        (
            "./mine_alone",
            f"; {GIVE}./mine_alone.py:Good: it has Good, Other, function",
        ),
        ("./kern.py", f"; {GIVE}./kern.py:attend: it has attend, Layer"),
        ("./kern.py:", f"; {GIVE}./kern.py:attend: it has attend, Layer"),
        ("./kren.py", ": there is no such file"),
        ("./mine_broken.py", ": no class or function can be read in './mine_broken.py'"),
        ("mine_package.Good", "; did you mean 'mine_package:Good'?"),
        ("mine_broken.Good", "; did you mean 'mine_broken:Good'?"),
        ("rnn.toch", "; did you mean 'rnn.torch'? (your own layer: impl=module:Class)"),
        ("sdpa", "; did you mean 'impl=sdpa.*'?"),
        ("mine_absent", "; see `python -m harness list` (your own layer: impl=module:Class)"),
        ("random", "; see `python -m harness list` (your own layer: impl=module:Class)"),
    ],
)
def test_a_name_without_a_colon_is_corrected_without_importing_a_module(
    impl: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raises = "raise ImportError('a driver never imports this')\n"
    (tmp_path / "mine_alone.py").write_text(raises + LAYERS)
    (tmp_path / "kern.py").write_text(f"{raises}def attend(): ...\ndef _step(): ...\nclass Layer: ...\n")
    (tmp_path / "mine_broken.py").write_text("class Good(:\n")
    (tmp_path / "mine_package").mkdir()
    (tmp_path / "mine_package" / "__init__.py").write_text(raises)
    (tmp_path / "mine_package" / "layers.py").write_text(LAYERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError) as caught:
        layer_lookup.check_name(impl)
    assert str(caught.value) == f"unknown impl '{impl}'{meant}"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("'attention.nive'", "'attention.nive' is no layer; did you mean 'attention.naive'?"),
        ("'Good'", "'Good' is no layer."),
        ("'./referring.py:Absent'", "'./referring.py:Absent' cannot be loaded (./referring.py has no 'Absent'; "),
        ("'mine_absent:Good'", "'mine_absent:Good' cannot be loaded (No module named 'mine_absent')."),
        ("3", "3 is no layer."),
    ],
)
def test_a_reference_that_cannot_be_found_is_named_with_the_forms_that_it_takes(
    reference: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "referring.py").write_text(f"class Mine:\n    reference = {reference}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        layer_lookup.load_reference("./referring.py:Mine")
    assert str(caught.value).startswith(f"reference = {said}")
    assert str(caught.value).endswith(" Give a class or function, 'module:name', or the name of a registered layer.")
