import subprocess
import sys
from pathlib import Path

import pytest

from harness.core.layers import layer_lookup
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from impls.registry import IMPLS


def test_every_registered_impl_and_its_reference_can_be_loaded() -> None:
    for name in IMPLS:
        assert isinstance(layer_lookup.load_class(name), type)
        assert isinstance(layer_lookup.load_reference(name), type)


def test_a_misspelt_name_gets_the_nearest_one() -> None:
    with pytest.raises(UsageError, match=r"unknown impl 'atention\.fused'; did you mean 'attention\.fused'\?"):
        layer_lookup.check_name("atention.fused")


@pytest.mark.parametrize("name", ["my.module:", ":Layer", "my module:Layer", "my.module:Layer:more", "../x:Y"])
def test_a_malformed_name_of_somebodys_own_layer_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"is not of the form their\.module:TheirLayer"):
        layer_lookup.check_name(name)


@pytest.mark.parametrize("key", ["paged|eager", "my/kernel", "a-b"])
def test_a_key_that_is_no_python_name_is_to_be_registered_under_another(key: str) -> None:
    with pytest.raises(UsageError, match=r"in names of Python: register keys as such$"):
        layer_lookup.check_name(f"transformers:Functions.{key}")


def test_a_file_without_a_path_gets_one() -> None:
    with pytest.raises(UsageError, match=r"^impl 'mix\.py:Mix': .* path: impl=\./mix\.py:Mix$"):
        layer_lookup.check_name("mix.py:Mix")


def test_somebodys_own_layer_may_name_one_of_ours_as_its_reference() -> None:
    assert layer_lookup.load_reference("planted:ForgetsTheScale") is layer_lookup.load_reference("attention.naive")
    assert layer_lookup.load_reference("planted:Identity") is None


def test_something_that_is_no_class_is_refused() -> None:
    with pytest.raises(TypeError, match="planted:NotALayer is neither a class nor a function"):
        layer_lookup.load_class("planted:NotALayer")


def test_heads_must_divide_the_width_of_a_layer_that_has_heads() -> None:
    case = Case("attention.fused", 8, 10, 3)
    assert layer_lookup.indivisible_size(case, has_heads=True) == "d_model=10 is not divisible by num_heads=3"
    assert layer_lookup.indivisible_size(case, has_heads=False) is None


def test_looking_up_names_does_not_import_torch() -> None:
    modules = "harness.core.layers.layer_lookup, harness.cli.layers, harness.cli.machine"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_file_that_is_no_python_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "layer.txt").write_text("")
    with pytest.raises(ImportError, match=r"layer\.txt is not a Python module"):
        layer_lookup.load_file(tmp_path / "layer.txt")
