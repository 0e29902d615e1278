"""Elman network whose loop over time is compiled in blocks of 16 steps.

    h_t = tanh(W_x x_t + b_x + W_h h_{t-1} + b_h),   h_0 = 0

Elman 1990, "Finding structure in time"; Ansel et al. 2024, "PyTorch 2". Advantage over `elman`: 16 steps are one
program. Python and the dispatcher run once per block instead of three times per step, and sum and tanh become one pass.
The chain of n products remains: no compiler can shorten it.

Why blocks: torch's compiler unrolls loops, and its time grows with the number of steps (minutes for a thousand). With
16 steps, the cost of entering the program is already small beside its work.

The n mod 16 remaining steps come first, as a separate program. All full blocks after them start from a computed state.
With gradients, such a state needs another program than h_0, which has no gradient. At most two programs are therefore
compiled, for any n.
"""

import torch
from torch import Tensor, nn

from impls.rnn.elman import Elman

BLOCK = 16


class CompiledElman(Elman):
    """(b, n, d) -> (b, n, d): every h_t. The layer has no heads; `num_heads` is accepted but unused.

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
