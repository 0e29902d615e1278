"""Layers of one family compute the same thing from the same weights."""

import itertools

import pytest
import torch

from harness import catalog
from harness.case import Case
from harness.trial.build import build_layer
from impls.registry import IMPLS

FAMILIES = sorted({impl.family for impl in IMPLS.values()})
PAIRS = [
    (a.name, b.name) for a, b in itertools.permutations(IMPLS.values(), 2) if a.family == b.family and a.name != b.name
]


def make(name: str, d: int = 24, h: int = 3) -> torch.nn.Module:
    torch.manual_seed(0)
    return build_layer(catalog.load_class(name), Case(name, 7, d, h), **catalog.build_options(name)).double()


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_one_loads_the_others_state_and_gives_its_output(a: str, b: str) -> None:
    layer, other = make(a), make(b)
    other.load_state_dict(layer.state_dict())
    x = torch.randn(2, 7, 24, dtype=torch.float64)
    torch.testing.assert_close(other(x), layer(x))


@pytest.mark.parametrize("name", IMPLS)
@pytest.mark.parametrize("n", [1, 2, 33])
def test_any_length_and_batch_keeps_its_shape_and_matches_the_reference(name: str, n: int) -> None:
    layer = make(name)
    reference = build_layer(catalog.load_reference(name), Case(name, n, 24, 3)).double()
    reference.load_state_dict(layer.state_dict())
    x = torch.randn(3, n, 24, dtype=torch.float64)
    y = layer(x)
    assert y.shape == x.shape
    torch.testing.assert_close(y, reference(x))


@pytest.mark.parametrize("name", IMPLS)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    layer = make(name, d=6, h=2)
    x = torch.randn(1, 3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,))


def test_attention_loads_the_weights_of_torchs_own_module_and_agrees_with_it() -> None:
    theirs = torch.nn.MultiheadAttention(24, 3, batch_first=True).double()
    layer = make("attention.naive")
    layer.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 7, 24, dtype=torch.float64)
    torch.testing.assert_close(layer(x), theirs(x, x, x, need_weights=False)[0])


def test_heads_that_do_not_divide_the_width_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="d_model=10 is not divisible by num_heads=3"):
        catalog.load_class("attention.packed")(d_model=10, num_heads=3)


def test_the_pinned_backend_is_not_replaced_in_silence() -> None:
    layer = catalog.load_class("attention.fused")(d_model=8, num_heads=2, backend="cudnn")
    with pytest.raises(RuntimeError, match=r"No (viable backend|available kernel)"):
        layer(torch.randn(1, 4, 8))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_the_first_part_of_its_names(family: str) -> None:
    assert all(name.startswith(family + ".") for name, impl in IMPLS.items() if impl.family == family)
