"""The Elman network, its loop over time compiled 16 steps at a time.

    h_t = tanh(W_x x_t + b_x + W_h h_{t-1} + b_h),   h_0 = 0

Elman 1990, "Finding structure in time"; Ansel et al. 2024, "PyTorch 2". What this rung adds to `elman`: 16 steps are
one program, so that Python and the dispatcher are left once in a block and not thrice in a step, and sum and tanh are
one pass. The chain of n products stays: no compiler can shorten it.

Why blocks: torch's compiler unrolls a loop, and its time grows with the steps (minutes for a thousand), while 16
already make the cost of entering the program small beside its work. n mod 16 steps are left over; they come first, as
a program of their own, so that all others go on from a state that is computed: where gradients are asked for, a state
that has one is another program than h_0, which has none. So there are two programs at most, whatever n is.
"""

import torch
from torch import Tensor, nn

from impls.rnn.elman import Elman

BLOCK = 16


class CompiledElman(Elman):
    """(b, n, d) -> (b, n, d): every h_t. It has no heads; `num_heads` is accepted and not used.

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
        """One token more, (b, d) -> (b, d): h_t from x_t and h_{t-1}."""
        return self._step(x_t.contiguous(), h)  # one layout, one program


def block(inputs: Tensor, h: Tensor, w_h: Tensor) -> tuple[Tensor, Tensor]:
    """Some steps from state h (b, d) on, of inputs (b, steps, d) already projected: their states, and the last one."""
    states = []
    for input_t in inputs.unbind(dim=1):  # (b, d) each
        h = torch.tanh(input_t + h @ w_h)  # (b, d)
        states.append(h)
    return torch.stack(states, dim=1), h
