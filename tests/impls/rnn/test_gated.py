"""GRU and LSTM: torch's own networks, gate by gate."""

import pytest
import torch
from torch import Tensor, nn

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import trace_call
from harness.core.trial.device import tensors_in
from harness.core.trial.workload import build
from impls.rnn.gated import GRU, LSTM, Elman
from impls.rnn.reference import GRUReference, LSTMReference
from impls.rnn.torch_modules import TorchGRU, TorchLSTM, TorchRNN

D = 5
OPEN, CLOSED = 1e3, -1e3
THEIRS = [
    (Elman, nn.RNN),
    (GRU, nn.GRU),
    (GRUReference, nn.GRU),
    (TorchGRU, nn.GRU),
    (LSTM, nn.LSTM),
    (LSTMReference, nn.LSTM),
    (TorchLSTM, nn.LSTM),
]


def inputs(n: int = 7, b: int = 3) -> Tensor:
    return torch.randn(b, n, D, dtype=torch.float64, requires_grad=True)


def set_gate(layer: nn.Module, gate: int, to: float) -> None:
    """Hold a gate at σ(to), whatever comes in."""
    rows = slice(gate * D, (gate + 1) * D)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter[rows] = to if name == "bias_ih_l0" else 0.0


@pytest.mark.parametrize(("ours", "theirs"), THEIRS)
def test_it_loads_the_weights_of_torchs_own_network_and_gives_its_outputs_and_gradients(
    ours: type, theirs: type
) -> None:
    layer, module = ours(D).double(), theirs(D, D, batch_first=True).double()
    layer.load_state_dict(module.state_dict())
    x = inputs()
    y, expected = layer(x), module(x)[0]
    torch.testing.assert_close(y, expected)
    towards = torch.randn_like(y)
    got = torch.autograd.grad(y, [x, *layer.parameters()], towards)
    torch.testing.assert_close(got, torch.autograd.grad(expected, [x, *module.parameters()], towards))


@pytest.mark.parametrize("layer_class", [Elman, TorchRNN, GRU, TorchGRU, LSTM, TorchLSTM])
def test_steps_and_prefills_in_any_pieces_go_on_from_the_state_before(layer_class: type) -> None:
    layer, x = layer_class(D).double(), inputs(n=6).detach()
    expected = layer(x)
    state = layer.start(3, 6)
    for t in range(2):
        y, state = layer.step(x[:, t], state)
        torch.testing.assert_close(y, expected[:, t])
    if hasattr(layer, "prefill"):
        state = layer.prefill(x[:, 2:5], state)
    else:
        for t in range(2, 5):
            _, state = layer.step(x[:, t], state)
    for _ in range(2):  # from the same state twice
        torch.testing.assert_close(layer.step(x[:, 5], state)[0], expected[:, 5])


@pytest.mark.parametrize("layer_class", [Elman, TorchRNN, GRU, TorchGRU, LSTM, TorchLSTM])
def test_the_state_does_not_grow_with_the_room_asked_for(layer_class: type) -> None:
    layer = layer_class(D)
    small, large = ([t.shape for t in tensors_in(layer.start(2, n))] for n in (1, 1000))
    assert small == large


@pytest.mark.parametrize("layer_class", [GRU, GRUReference, TorchGRU])
def test_a_grus_closed_reset_gate_hides_the_recurrent_product_and_its_bias(layer_class: type) -> None:
    layer = layer_class(D).double()
    set_gate(layer, 0, CLOSED)
    set_gate(layer, 1, CLOSED)  # the update gate: nothing of h_{t-1} is kept
    x = inputs()
    w, b = layer.weight_ih_l0[2 * D :], layer.bias_ih_l0[2 * D :]
    torch.testing.assert_close(layer(x), torch.tanh(nn.functional.linear(x, w, b)))


@pytest.mark.parametrize("layer_class", [GRU, GRUReference, TorchGRU])
def test_a_grus_open_update_gate_keeps_the_state_as_it_is(layer_class: type) -> None:
    layer = layer_class(D).double()
    set_gate(layer, 1, OPEN)
    assert torch.count_nonzero(layer(inputs())) == 0


@pytest.mark.parametrize("layer_class", [LSTM, LSTMReference, TorchLSTM])
def test_an_lstm_with_all_gates_open_sums_its_candidates_up_in_the_cell(layer_class: type) -> None:
    layer = layer_class(D).double()
    for gate in (0, 1, 3):
        set_gate(layer, gate, OPEN)
    set_gate(layer, 2, 0.25)  # every candidate is tanh(0.25)
    y = layer(inputs(n=4))
    cell = torch.arange(1, 5, dtype=torch.float64) * torch.tanh(torch.tensor(0.25, dtype=torch.float64))
    torch.testing.assert_close(y, torch.tanh(cell)[None, :, None].expand_as(y))


@pytest.mark.parametrize("layer_class", [LSTM, LSTMReference, TorchLSTM])
def test_an_lstms_closed_forget_gate_leaves_nothing_of_the_cell(layer_class: type) -> None:
    layer = layer_class(D).double()
    set_gate(layer, 1, CLOSED)
    with torch.no_grad():
        layer.weight_hh_l0.zero_()  # else the past comes back through h
    x = inputs()
    alone = torch.cat([layer(x[:, t : t + 1]) for t in range(x.shape[1])], dim=1)
    torch.testing.assert_close(layer(x), alone)


@pytest.mark.parametrize("layer_class", [GRU, LSTM])
def test_gradients_are_those_of_finite_differences(layer_class: type) -> None:
    assert torch.autograd.gradcheck(layer_class(D).double(), (inputs(n=3, b=1),))


def test_torchs_lstm_claims_no_work_in_training_as_that_is_the_backends() -> None:
    n, d = 16, 8
    work = {}
    for name in ("rnn.lstm", "rnn.lstm.torch"):
        torch.set_grad_enabled(True)
        work[name] = trace_call(build(Case(name, n, d, 1, mode="train", dtype="float64"), seed=0)).flops.work
    # In float64 it is a loop, too, and nothing goes on to h_0.
    assert work["rnn.lstm"] == work["rnn.lstm.torch"] == (48 * n * d**2 - 8 * d**2,) * 2
    assert "work_train" not in layer_lookup.claims_of_impl("rnn.lstm.torch")
