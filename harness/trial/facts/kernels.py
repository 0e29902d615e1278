"""Opaque kernels: what each computes, and how deep it is inside, as formulas, because nothing of it can be seen.

Conventions. A multiply-add is 2. `flops` is the work that the mask leaves, `full` the work without a mask. Each
formula takes the call's arguments by name, as the operator declares them.

- Attention, forward: the scores and the weighted sum, 2 products. Backward of a fused kernel: 5, because the scores are
  computed again (Dao et al. 2022, algorithm 4); that of `math` is made of plain products, 4 of them. Under
  `is_causal` a query sees the keys up to its own place, counted from the top left as in
  `scaled_dot_product_attention`. A mask given as a tensor leaves out no work: the kernel does it all.
  On CUDA the head size is padded to a multiple of 8 before the kernel, and counted so.
- Recurrent layers: each weight matrix once a token; backward twice that, less what is not asked for.
- Depth of attention: scores, softmax, weighted sum; backward scores, softmax (beside it the gradient of the weights),
  gradient of the scores, gradients of queries and keys. Of a recurrent layer: the product over all inputs, which the
  layers below must have ended, then n steps of as many operations as the chain from h_{t-1} to h_t has when written
  out; backward as many, and the weights' gradients after the last.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

Arguments = Mapping[str, Any]


class Work(NamedTuple):
    """FLOPs of one call: what the mask leaves, and without a mask."""

    flops: int
    full: int


@dataclass(frozen=True)
class Kernel:
    """An opaque kernel. `work` gives None for a call whose work it cannot tell."""

    work: Callable[[Arguments], Work | None]
    depth: Callable[[Arguments], int]


def causal_pairs(queries: int, keys: int) -> int:
    """How many pairs a causal mask leaves, aligned at the top left: n(n+1)/2 of n² where both are n."""
    square = min(queries, keys)
    return square * (square + 1) // 2 + (queries - square) * keys


def _products(query: Tensor, key: Tensor, value: Tensor, causal: bool, qk: int, v: int, heads_at: int = 1) -> Work:
    """`qk` products over the query's head size, `v` over the value's. Dimension `heads_at` is heads, 1 or 2."""
    positions_at = 3 - heads_at
    batch_heads = query.shape[0] * query.shape[heads_at]
    queries, keys = query.shape[positions_at], key.shape[positions_at]
    each = 2 * batch_heads * (qk * query.shape[-1] + v * value.shape[-1])
    full = queries * keys
    return Work(each * (causal_pairs(queries, keys) if causal else full), each * full)


def _attention(call: Arguments) -> Work:
    return _products(call["query"], call["key"], call["value"], call["is_causal"], 1, 1)


def _attention_backward(call: Arguments) -> Work:
    # Over the query's head size: scores, dQ, dK. Over the value's: dV, and the gradient of the weights.
    return _products(call["query"], call["key"], call["value"], call["is_causal"], 3, 2)


def _flash(qk: int, v: int) -> Callable[[Arguments], Work | None]:
    """flash-attention called by itself: (b, n, h, head_dim)."""

    def work(call: Arguments) -> Work | None:
        ragged = call["cum_seq_q"] is not None and call["cum_seq_q"].numel() > 0
        if ragged or any(
            call.get(side) is not None and call[side] >= 0 for side in ("window_size_left", "window_size_right")
        ):
            return None
        return _products(call["query"], call["key"], call["value"], call["is_causal"], qk, v, heads_at=2)

    return work


def _efficient(qk: int, v: int) -> Callable[[Arguments], Work | None]:
    """Memory-efficient attention called by itself: (b, n, h, head_dim); mask type 1 is causal from the top left."""

    def work(call: Arguments) -> Work | None:
        mask = call["custom_mask_type"]
        if call["cu_seqlens_q"] is not None or call.get("window_size") or mask not in (0, 1):
            return None
        return _products(call["query"], call["key"], call["value"], mask == 1, qk, v, heads_at=2)

    return work


def _native_attention(call: Arguments) -> Work:
    """The evaluation path of `nn.MultiheadAttention`, projections included."""
    query, keys = call["query"], call["key"].shape[1]
    b, n, d = query.shape
    return _unmasked(2 * b * (n * d * d + 2 * keys * d * d + 2 * n * keys * d + n * d * d))


def _encoder_layer(call: Arguments) -> Work:
    """The evaluation path of `nn.TransformerEncoderLayer`."""
    b, n, d = call["src"].shape
    feed_forward = call["ffn_weight_1"].numel() + call["ffn_weight_2"].numel()
    return _unmasked(2 * b * n * (4 * d * d + 2 * n * d + feed_forward))


def _unmasked(flops: int) -> Work:
    return Work(flops, flops)


# Operations from h_{t-1} to h_t, by cuDNN's number of the mode: relu and tanh (product, sum, nonlinearity), LSTM
# (product, sum, gate, times cell, plus input, tanh, times output gate), GRU (product, sum, reset gate, times new, sum,
# tanh, difference, times update gate, sum).
_STEP = {0: 3, 1: 3, 2: 7, 3: 9}


def _steps(call: Arguments) -> int:
    """Sequential steps of a recurrent layer's input (n, b, d), (b, n, d), or packed with `batch_sizes`."""
    if call["batch_sizes"]:
        return len(call["batch_sizes"])
    return int(call["input"].shape[1 if call["batch_first"] else 0])


def _recurrent_depth(call: Arguments) -> int:
    return int(call["num_layers"]) * (_steps(call) * _STEP[call["mode"]] + 1)


def _onednn_depth(call: Arguments) -> int:
    # One layer in one direction, whatever `num_layers` says, and its input is (n, b, d), whatever `batch_first` says.
    return int(call["input"].shape[0]) * _STEP[call["mode"]] + 1


def _tokens(call: Arguments) -> int:
    return int(call["input"].numel() // call["input"].shape[-1])


def _cudnn(call: Arguments) -> Work:
    """All layers and directions: each matrix of `weight` once a token, projections included."""
    return _unmasked(2 * _tokens(call) * sum(w.numel() for w in call["weight"] if w.dim() == 2))


def _cudnn_backward(call: Arguments) -> Work:
    matrices = [w for w in call["weight"] if w.dim() == 2]
    forward = _cudnn(call).flops
    to_input, to_state, _, to_weights = call["output_mask"]
    flops = 2 * forward if to_weights else forward
    group = len(matrices) // (call["num_layers"] * (2 if call["bidirectional"] else 1))
    if not to_state:  # the product that would reach h_0: each sequence's first step, in every layer and direction
        sequences = call["batch_sizes"][0] if call["batch_sizes"] else _tokens(call) // _steps(call)
        flops -= 2 * sequences * sum(w.numel() for w in matrices[1::group])
    if not to_input:
        first_layer = matrices[: group * (2 if call["bidirectional"] else 1) : group]
        flops -= 2 * _tokens(call) * sum(w.numel() for w in first_layer)
    return _unmasked(flops)


def _onednn(call: Arguments) -> Work:
    """One layer in one direction; `weight0` and `weight1` are its matrices."""
    return _unmasked(2 * _tokens(call) * (call["weight0"].numel() + call["weight1"].numel()))


def _onednn_backward(call: Arguments) -> Work:
    # It always goes on to h_0.
    return _unmasked(4 * _tokens(call) * (call["weight1"].numel() + call["weight2"].numel()))


def _constant(depth: int) -> Callable[[Arguments], int]:
    return lambda call: depth


_FORWARD, _BACKWARD = _constant(3), _constant(4)

KERNELS: dict[str, Kernel] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": Kernel(_attention, _FORWARD),
    "aten::_scaled_dot_product_flash_attention": Kernel(_attention, _FORWARD),
    "aten::_scaled_dot_product_efficient_attention": Kernel(_attention, _FORWARD),
    "aten::_scaled_dot_product_cudnn_attention": Kernel(_attention, _FORWARD),
    "aten::_scaled_dot_product_fused_attention_overrideable": Kernel(_attention, _FORWARD),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": Kernel(_attention_backward, _BACKWARD),
    "aten::_scaled_dot_product_flash_attention_backward": Kernel(_attention_backward, _BACKWARD),
    "aten::_scaled_dot_product_efficient_attention_backward": Kernel(_attention_backward, _BACKWARD),
    "aten::_scaled_dot_product_cudnn_attention_backward": Kernel(_attention_backward, _BACKWARD),
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": Kernel(_attention_backward, _BACKWARD),
    "aten::_flash_attention_forward": Kernel(_flash(1, 1), _FORWARD),
    "aten::_flash_attention_backward": Kernel(_flash(3, 2), _BACKWARD),
    "aten::_efficient_attention_forward": Kernel(_efficient(1, 1), _FORWARD),
    "aten::_efficient_attention_backward": Kernel(_efficient(3, 2), _BACKWARD),
    "aten::mkldnn_rnn_layer": Kernel(_onednn, _onednn_depth),
    "aten::mkldnn_rnn_layer_backward": Kernel(_onednn_backward, _onednn_depth),
    "aten::_cudnn_rnn": Kernel(_cudnn, _recurrent_depth),
    "aten::_cudnn_rnn_backward": Kernel(_cudnn_backward, _recurrent_depth),
    # Projections of queries, keys and values; attention; projection of the output.
    "aten::_native_multi_head_attention": Kernel(_native_attention, _constant(5)),
    # Two norms and two sums, attention, and a feed-forward block of product, nonlinearity, product.
    "aten::_transformer_encoder_layer_fwd": Kernel(_encoder_layer, _constant(12)),
}
