"""How far back the last output feels its input, in a trial: against Jacobians by hand."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.workload import Unsupported, build
from harness.extras.attention.trials import attention_map, gradient_reach


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def case_of(impl: str, n: int = 12, d: int = 8, mask: str = "causal") -> Case:
    impl = impl if "." in impl else f"extras.attention.layers:{impl}"
    return Case(impl, n, d, 2, mode="train", dtype="float64", mask=mask)


def norms(impl: str, seed: int = 0, **sizes: object) -> torch.Tensor:
    return torch.tensor(gradient_reach(case_of(impl, **sizes), seed)["norms"], dtype=torch.float64)


def by_jacobian(impl: str, seed: int, at_once: int, **sizes: object) -> torch.Tensor:
    """Of the first sequence of the batch that is drawn, all of ∂h_n/∂x at once."""
    work = build(Case(**{**case_of(impl, **sizes).as_dict(), "batch_size": at_once}), seed)
    layer = work.layer.eval()
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x)[0, -1], work.x[:1].detach())  # (d, 1, n, d)
    return jacobian.square().sum((0, 1, 3)).sqrt().flip(0)


@pytest.mark.parametrize(("d", "at_once"), [(8, 8), (32, 32), (45, 32)])
@pytest.mark.parametrize("impl", ["rnn.elman", "Mixes"])
def test_it_is_the_norm_of_the_jacobian_at_every_distance(impl: str, d: int, at_once: int) -> None:
    torch.testing.assert_close(norms(impl, d=d), by_jacobian(impl, 0, at_once, d=d))


def test_in_an_elman_network_it_is_a_product_of_as_many_jacobians_as_there_are_steps() -> None:
    work = build(Case(**{**case_of("rnn.elman").as_dict(), "batch_size": 8}), 3)
    layer, x = work.layer, work.x[0].detach()
    h, steps = torch.zeros(8, dtype=torch.float64), []
    for x_t in x:
        h = torch.tanh(layer.weight_ih_l0 @ x_t + layer.bias_ih_l0 + layer.weight_hh_l0 @ h + layer.bias_hh_l0).detach()
        steps.append(torch.diag(1 - h**2))
    expected, product = [], torch.eye(8, dtype=torch.float64)
    for d_tanh in reversed(steps):
        expected.append((product @ d_tanh @ layer.weight_ih_l0).norm().detach())
        product = product @ d_tanh @ layer.weight_hh_l0
    torch.testing.assert_close(norms("rnn.elman", seed=3), torch.stack(expected))


def test_what_each_step_keeps_is_seen_exactly() -> None:
    torch.testing.assert_close(norms("Fades"), 8**0.5 * 0.8 ** torch.arange(12, dtype=torch.float64))


def test_a_float32_mask_hides_what_it_hides_in_the_layers_dtype() -> None:
    expected = torch.tensor([8**0.5 / 4] * 4 + [0.0] * 44, dtype=torch.float64)
    torch.testing.assert_close(norms("AveragesFour", n=48), expected)


def test_what_is_too_small_for_a_square_is_still_seen() -> None:
    found = norms("FadesAway", n=18)
    torch.testing.assert_close((found[1:16] / found[:15]).log10(), torch.full((15,), -20.0, dtype=torch.float64))
    assert found[-1] == 0


def test_in_attention_the_farthest_token_is_as_near_as_the_next() -> None:
    found = norms("attention.packed", n=64)
    assert 0.2 < found[1:32].mean() / found[32:].mean() < 5


def test_another_seed_draws_another_layer_and_input() -> None:
    assert not torch.allclose(norms("rnn.elman", seed=1), norms("rnn.elman"))
    torch.testing.assert_close(norms("rnn.elman"), norms("rnn.elman"))


def test_a_layer_that_takes_no_mask_is_asked_without() -> None:
    with pytest.raises(Unsupported):
        norms("TakesNoMask")
    torch.testing.assert_close(norms("TakesNoMask", mask="none"), torch.full((12,), 8**0.5 / 12).double())


def test_a_function_of_several_inputs_is_refused() -> None:
    with pytest.raises(Unsupported, match="it is a function of several inputs"):
        gradient_reach(Case("sdpa.varlen", 12, 8, 2, mode="train"), seed=0)


def test_a_gradient_that_is_no_number_is_wrong() -> None:
    with pytest.raises(WrongResult, match="not finite"):
        norms("Explodes")


def test_a_decoder_block_is_looked_at_from_its_last_token() -> None:
    block = layer_lookup.load_class("rnn.elman")
    assert block.causal
    assert (norms("impls.blocks.blocks:Decoder") > 0).all()


def test_a_layer_with_a_wider_input_is_looked_inside_as_any_other() -> None:
    case = Case("core.trial.wide:Weighted", 3, 4, 1)
    assert len(attention_map(case, 0, (1, 2, 3))["weights"][0]) == 3
    norms = gradient_reach(replace(case, seq_len=8, mode="train", mask="causal", dtype="float64"), 0)["norms"]
    assert len(norms) == 8
    assert min(norms) > 0
