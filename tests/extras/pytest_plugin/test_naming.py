"""How a class is named to a process that shares nothing with the one that holds it."""

import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from planted import Identity
from torch import nn

from harness.core.layers import layer_lookup
from harness.core.model.errors import UsageError
from harness.extras.pytest_plugin.shared_measurements import impl_name_of
from impls.attention.fused import FusedAttention


class Here:
    class Inner:
        pass


def in_function() -> type:
    class Local:
        pass

    return Local


def module_of(file: Path, name: str) -> ModuleType:
    """As a test runner may import it: under a name that cannot be imported elsewhere."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_what_can_be_imported_goes_by_its_module() -> None:
    assert impl_name_of(FusedAttention) == "impls.attention.fused:FusedAttention"
    assert impl_name_of(Identity) == "planted:Identity"
    assert impl_name_of("attention.fused") == "attention.fused"


named = partial(Identity)


def test_a_partial_goes_by_the_name_that_its_module_has_for_it() -> None:
    assert impl_name_of(named).endswith("test_naming:named")
    assert layer_lookup.load_class(impl_name_of(named)).__mro__[1] is Identity


def test_what_cannot_goes_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "with space.py"
    file.write_text("class Layer:\n    class Inner:\n        pass\n")
    monkeypatch.setitem(sys.modules, "nobody.finds.this", None)
    layer = module_of(file, "nobody.finds.this").Layer
    assert impl_name_of(layer) == f"{file}:Layer"
    assert impl_name_of(layer.Inner) == f"{file}:Layer.Inner"
    layer_lookup.check_name(impl_name_of(layer))
    assert layer_lookup.load_class(impl_name_of(layer.Inner)).__qualname__ == "Layer.Inner"


def test_a_name_that_another_file_has_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "json.py"
    file.write_text("class Layer:\n    pass\n")
    monkeypatch.setitem(sys.modules, "json", sys.modules["json"])
    assert impl_name_of(module_of(file, "json").Layer) == f"{file}:Layer"


def test_a_file_in_a_package_is_imported_as_part_of_it(tmp_path: Path) -> None:
    package = tmp_path / "package_of_a_stranger" / "inner"
    package.mkdir(parents=True)
    for directory in (package.parent, package):
        (directory / "__init__.py").write_text("")
    (package / "layers.py").write_text("class Layer:\n    pass\n")
    (package / "tests.py").write_text("from .layers import Layer\n")
    module = layer_lookup.load_file(package / "tests.py")
    assert module.__name__ == "package_of_a_stranger.inner.tests"
    assert layer_lookup.load_file(package / "tests.py") is module
    assert module.Layer is layer_lookup.load_file(package / "layers.py").Layer


def test_a_package_of_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "__init__.py").write_text("")
    (tmp_path / "json" / "layers.py").write_text("")
    with pytest.raises(ImportError, match=r"cannot be imported as json: that is .*json/__init__\.py"):
        layer_lookup.load_file(tmp_path / "json" / "layers.py")


def test_a_file_that_fails_is_run_anew(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text("1 / 0")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            layer_lookup.load_file(tmp_path / "layers.py")


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (in_function(), "is inside a function, where no other process finds it: move it out"),
        (lambda d_model: None, "a lambda has no name by which another process finds it"),
        (Here(), "is neither a class nor a function: give the class itself"),
        (nn.Sequential(nn.Linear(2, 2)), "out_features=2, bi… is neither a class nor a function: give the class"),
        (partial(nn.Linear, 4), "has no name by which another process finds it: name it at the top of a module"),
        (type("Made", (), {}), "Made is not that object: give one under its own name"),
    ],
)
def test_what_no_other_process_could_find_is_refused_with_what_to_do(layer: object, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        impl_name_of(layer)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
