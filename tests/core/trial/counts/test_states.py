"""The traffic of a decoding step whose new state is a part of a larger result, against counts by hand.

A vector is d numbers of float32. Of such a result, what the step returns is written once, and the rest counts if the
step reads it.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import collect_metrics

D = 16
KEPT = 4
WEIGHTS = 4 * D * D


class Joint(nn.Module):
    """The output and the new state are halves of one result."""

    causal = True

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(2 * d_model, 2 * d_model) / 8)

    def start(self, batch_size: int, length: int) -> Tensor:
        return self.mix.new_zeros(batch_size, len(self.mix) // 2)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        y, state = torch.tanh(torch.cat([x, state], -1) @ self.mix).chunk(2, -1)
        return y, state

    def forward(self, x: Tensor) -> Tensor:
        state, outputs = self.start(len(x), 0).to(x.dtype), []
        for token in x.unbind(1):
            y, state = self.step(token, state)
            outputs.append(y)
        return torch.stack(outputs, 1)


class Apart(Joint):
    """The step itself reads the half that is not the state."""

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        y, state = super().step(x, state)
        return y.clone(), state


class Window(nn.Module):
    """Sums the last four tokens, which are its state."""

    causal = True

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(d_model))

    def start(self, batch_size: int, length: int) -> Tensor:
        return self.scale.new_zeros(batch_size, KEPT, len(self.scale))

    def next_state(self, x: Tensor, state: Tensor) -> Tensor:
        return torch.cat([state, x[:, None]], 1)[:, -KEPT:]

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = self.next_state(x, state)
        return state.sum(1) * self.scale, state

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1])
        back = places[:, None] - places
        return (((back >= 0) & (back < KEPT)).to(x.dtype) @ x) * self.scale


class WindowWithoutTheFirst(Window):
    def next_state(self, x: Tensor, state: Tensor) -> Tensor:
        return torch.cat([state[:, 1:], x[:, None]], 1)


class WindowOfMore(Window):
    """Joins ten tokens more, which the state leaves out."""

    def next_state(self, x: Tensor, state: Tensor) -> Tensor:
        return torch.cat([state.new_zeros(len(x), 10, D), state[:, 1:], x[:, None]], 1)[:, -KEPT:]


# The token and the state, what is joined and the product written and read, the output and the new state.
OF_BOTH = 1 + 1 + 2 * 2 + 2 * 2 + 1 + 1
# The token, the sum written and read, the weights, the output and the new state.
OF_A_WINDOW = 1 + 2 * 1 + 1 + 1 + KEPT


@pytest.mark.parametrize(
    ("layer", "vectors", "weights"),
    [
        (Joint, OF_BOTH, 4 * WEIGHTS),
        (Apart, OF_BOTH + 2, 4 * WEIGHTS),  # its output is a copy of a half that is written and read
        (Window, OF_A_WINDOW + KEPT, 0),
        (WindowWithoutTheFirst, OF_A_WINDOW + KEPT - 1, 0),
        (WindowOfMore, OF_A_WINDOW + KEPT - 1 + 2 * 10, 0),  # the zeros, written and read
    ],
)
def test_a_state_that_is_a_part_of_a_result_is_written_once_and_the_rest_counts_if_it_is_read(
    layer: type, vectors: int, weights: int
) -> None:
    facts = collect_metrics(Case(f"{Path(__file__)}:{layer.__name__}", 32, D, 1, mode="decode"), seed=0)
    assert facts["facts_unknown"] == []
    assert facts["min_bytes"] == 4 * D * vectors + weights
