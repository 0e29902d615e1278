"""Elman network, GRU and LSTM with the loop over time in Python, and the Elman network with a compiled loop."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


class RecurrentParameters(nn.Module):
    """W_x and W_h of all gates stacked as `weight_ih_l0` and `weight_hh_l0` (gates · d, d), each with a bias.

    All gates share one input product and one recurrent product. Names and shapes are those of `torch.nn.RNN`, `nn.GRU`
    and `nn.LSTM` with one layer, so that each can load the other's `state_dict`. As in torch, the weights are drawn
    from U(−1/√d, 1/√d). No layer of the family has heads; `num_heads` is accepted but unused.
    """

    causal = True
    gates = 1

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__()
        rows, bound = self.gates * d_model, d_model**-0.5
        self.weight_ih_l0 = nn.Parameter(torch.empty(rows, d_model).uniform_(-bound, bound))
        self.weight_hh_l0 = nn.Parameter(torch.empty(rows, d_model).uniform_(-bound, bound))
        self.bias_ih_l0 = nn.Parameter(torch.empty(rows).uniform_(-bound, bound))
        self.bias_hh_l0 = nn.Parameter(torch.empty(rows).uniform_(-bound, bound))


class Elman(RecurrentParameters):
    """Elman network: (b, n, d) -> (b, n, d), every h_t. Parameter names are those of `torch.nn.RNN`.

        h_t = tanh(W_x x_t + b_x + W_h h_{t-1} + b_h),   h_0 = 0

    Elman 1990, "Finding structure in time". The input product does not depend on earlier states, so it is hoisted out
    of the loop as one large matrix product. The n small products inside the loop run in sequence.
    """

    def forward(self, x: Tensor) -> Tensor:
        inputs = nn.functional.linear(x, self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0)  # (b, n, d)
        w_h = self.weight_hh_l0.t()  # (d, d)
        h = x.new_zeros(x.shape[0], x.shape[2])  # (b, d)
        states = []
        for input_t in inputs.unbind(dim=1):  # n times (b, d)
            h = torch.tanh(input_t + h @ w_h)  # (b, d)
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)

    def start(self, batch_size: int, seq_len: int) -> Tensor:
        """Return h_0 (b, d), the whole decoding state. Its size does not grow with the number of tokens."""
        return self.weight_hh_l0.new_zeros(batch_size, self.weight_hh_l0.shape[0])

    def step(self, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Process one more token: (b, d) -> (b, d), h_t from x_t and h_{t-1}."""
        from_input = nn.functional.linear(x_t, self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0)  # (b, d)
        h = torch.tanh(from_input + h @ self.weight_hh_l0.t())  # (b, d)
        return h, h


class GRU(RecurrentParameters):
    """Gated recurrent unit: (b, n, d) -> (b, n, d), every h_t. Gates are stacked as r, z, c, as in `nn.GRU`.

        r_t = σ(W_ir x_t + b_ir + W_hr h_{t-1} + b_hr)               reset gate
        z_t = σ(W_iz x_t + b_iz + W_hz h_{t-1} + b_hz)               update gate
        c_t = tanh(W_in x_t + b_in + r_t ⊙ (W_hn h_{t-1} + b_hn))    candidate
        h_t = (1 − z_t) ⊙ c_t + z_t ⊙ h_{t-1},   h_0 = 0

    Cho et al. 2014, "Learning Phrase Representations using RNN Encoder–Decoder", section 2.3, in the variant of
    `torch.nn.GRU`: the reset gate is applied after the recurrent product, not before it. One product then serves all
    gates. Compared with `Elman`, each step chooses anew what to keep of the past, at three times the work.
    """

    gates = 3

    def forward(self, x: Tensor) -> Tensor:
        h = self.start(x.shape[0], x.shape[1])  # (b, d)
        states = []
        for input_t in self.inputs(x).unbind(dim=1):  # n times (b, 3d)
            h = self.cell(input_t, h)
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)

    def inputs(self, x: Tensor) -> Tensor:
        """Return W_i x + b_i of all gates, which does not depend on earlier states: (…, d) -> (…, 3d)."""
        return linear(x, self.weight_ih_l0, self.bias_ih_l0)

    def cell(self, input_t: Tensor, h: Tensor) -> Tensor:
        """Return h_t from the gates' inputs (b, 3d) and h_{t-1} (b, d)."""
        input_gates, input_candidate = input_t.split([2 * h.shape[-1], h.shape[-1]], dim=-1)  # (b, 2d), (b, d)
        recurrent = linear(h, self.weight_hh_l0, self.bias_hh_l0)  # (b, 3d)
        recurrent_gates, recurrent_candidate = recurrent.split([2 * h.shape[-1], h.shape[-1]], dim=-1)
        reset, update = torch.sigmoid(input_gates + recurrent_gates).chunk(2, dim=-1)  # (b, d) each
        candidate = torch.tanh(torch.addcmul(input_candidate, reset, recurrent_candidate))  # (b, d)
        return torch.lerp(candidate, h, update)  # (b, d)

    def start(self, batch_size: int, seq_len: int) -> Tensor:
        """Return h_0 (b, d), the whole decoding state. Its size does not grow with the number of tokens."""
        return self.weight_hh_l0.new_zeros(batch_size, self.weight_hh_l0.shape[1])

    def step(self, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Process one more token: (b, d) -> (b, d), h_t from x_t and h_{t-1}."""
        h = self.cell(self.inputs(x_t), h)
        return h, h

    def prefill(self, x: Tensor, h: Tensor) -> Tensor:
        """Return the state after t more tokens (b, t, d)."""
        for input_t in self.inputs(x).unbind(dim=1):
            h = self.cell(input_t, h)
        return h


State = tuple[Tensor, Tensor]  # h and c, (b, d) each


class LSTM(RecurrentParameters):
    """Long short-term memory: (b, n, d) -> (b, n, d), every h_t. Gates are stacked as i, f, g, o, as in `nn.LSTM`.

        i_t, f_t, o_t = σ(W_i* x_t + b_i* + W_h* h_{t-1} + b_h*)     input, forget and output gate
        g_t = tanh(W_ig x_t + b_ig + W_hg h_{t-1} + b_hg)            candidate
        c_t = f_t ⊙ c_{t-1} + i_t ⊙ g_t,   c_0 = 0                   cell
        h_t = o_t ⊙ tanh(c_t),             h_0 = 0

    Hochreiter & Schmidhuber 1997, "Long Short-Term Memory", with the forget gate of Gers et al. 2000, "Learning to
    Forget". Compared with the GRU, it has a second state, the cell, which no product mixes. The output gate controls
    how much of the cell is shown.
    """

    gates = 4

    def forward(self, x: Tensor) -> Tensor:
        h, c = self.start(x.shape[0], x.shape[1])  # (b, d) each
        states = []
        for input_t in self.inputs(x).unbind(dim=1):  # n times (b, 4d)
            h, c = self.cell(input_t, h, c)
            states.append(h)
        return torch.stack(states, dim=1)  # (b, n, d)

    def inputs(self, x: Tensor) -> Tensor:
        """Return W_i x plus both biases, which do not depend on earlier states: (…, d) -> (…, 4d)."""
        return linear(x, self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0)

    def cell(self, input_t: Tensor, h: Tensor, c: Tensor) -> State:
        """Return h_t and c_t from the gates' inputs (b, 4d), h_{t-1} and c_{t-1} (b, d)."""
        gates = torch.addmm(input_t, h, self.weight_hh_l0.t())  # (b, 4d)
        i, f, g, o = gates.chunk(4, dim=-1)  # (b, d) each
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)  # (b, d)
        return torch.sigmoid(o) * torch.tanh(c), c

    def start(self, batch_size: int, seq_len: int) -> State:
        """Return h_0 and c_0 (b, d) each, the whole decoding state.

        Its size does not grow with the number of tokens.
        """
        h = self.weight_hh_l0.new_zeros(batch_size, self.weight_hh_l0.shape[1])
        return h, torch.zeros_like(h)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Process one more token: (b, d) -> (b, d), h_t from x_t, h_{t-1} and c_{t-1}."""
        h, c = self.cell(self.inputs(x_t), *state)
        return h, (h, c)

    def prefill(self, x: Tensor, state: State) -> State:
        """Return the state after t more tokens (b, t, d)."""
        for input_t in self.inputs(x).unbind(dim=1):
            state = self.cell(input_t, *state)
        return state


# Steps per compiled block.
BLOCK = 16


class CompiledElman(Elman):
    """Elman network whose loop over time is compiled in blocks of 16 steps: (b, n, d) -> (b, n, d), every h_t.

    Ansel et al. 2024, "PyTorch 2". Advantage over `Elman`: 16 steps are one program. Python and the dispatcher run once
    per block instead of three times per step, and sum and tanh become one pass. The chain of n products remains: no
    compiler can shorten it.

    Why blocks: torch's compiler unrolls loops, and its time grows with the number of steps (minutes for a thousand).
    With 16 steps, the cost of entering the program is already small beside its work.

    The n mod 16 remaining steps come first, as a separate program. All full blocks after them start from a computed
    state. With gradients, such a state needs another program than h_0, which has no gradient. At most two programs are
    therefore compiled, for any n.

    The first call of each kind compiles. Decoding compiles one step.
    """

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model, num_heads)
        self._block = torch.compile(block, fullgraph=True, dynamic=False)
        self._step = torch.compile(super().step, fullgraph=True, dynamic=False)

    def forward(self, x: Tensor) -> Tensor:
        inputs = nn.functional.linear(x, self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0)  # (b, n, d)
        w_h = self.weight_hh_l0.t()  # (d, d)
        h = x.new_zeros(x.shape[0], x.shape[2])  # (b, d)
        blocks, left_over = divmod(x.shape[1], BLOCK)
        states = []
        for inputs_of_block in inputs.split([left_over] * bool(left_over) + [BLOCK] * blocks, dim=1):
            states_of_block, h = self._block(inputs_of_block, h, w_h)  # (b, ≤ 16, d), (b, d)
            states.append(states_of_block)
        return torch.cat(states, dim=1)  # (b, n, d)

    def step(self, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Process one more token: (b, d) -> (b, d), h_t from x_t and h_{t-1}."""
        return self._step(x_t.contiguous(), h)  # one layout, one program


def block(inputs: Tensor, h: Tensor, w_h: Tensor) -> tuple[Tensor, Tensor]:
    """Run some steps from state h (b, d), with projected inputs (b, steps, d). Return all states and the last one."""
    states = []
    for input_t in inputs.unbind(dim=1):  # (b, d) each
        h = torch.tanh(input_t + h @ w_h)  # (b, d)
        states.append(h)
    return torch.stack(states, dim=1), h
