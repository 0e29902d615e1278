"""Opaque kernels: formulas for their FLOPs and inner depth, which kernel ran, and whether a faster one was allowed.

Formulas are needed because nothing inside an opaque kernel can be observed. A multiply-add is 2. Each formula takes the
call's arguments by name, as the operator declares them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ..device import bytes_of
from .operations import Operation

Arguments = Mapping[str, Any]


class Work(NamedTuple):
    """FLOPs of one call: `flops` is the work that the mask leaves, and `full` the work without a mask."""

    flops: int
    full: int


@dataclass(frozen=True)
class Kernel:
    """An opaque kernel. `work` returns None for a call whose FLOPs are unknown. `depth` may be one for all calls."""

    work: Callable[[Arguments], Work | None]
    depth: Callable[[Arguments], int] | int


def causal_pairs(queries: int, keys: int, last_sees_all: bool = False) -> int:
    """Return the number of pairs that a causal mask leaves: n(n+1)/2 of n² if both are n.

    Under `is_causal`, a query sees the keys up to its own position, counted from the top left as in
    `scaled_dot_product_attention`. CUDA's flash attention counts from the bottom right, so its last query sees all.
    A mask given as a tensor saves no work: the kernel computes everything.
    """
    square = min(queries, keys)
    beside = square * (keys - square) if last_sees_all else (queries - square) * keys
    return square * (square + 1) // 2 + beside


def _products(call: Arguments, causal: bool, qk: int, v: int, heads_at: int = 1, last_sees_all: bool = False) -> Work:
    """Return `qk` products over the query's head size plus `v` over the value's. For the mask, see `causal_pairs`.

    `heads_at` is the heads' dimension, 1 or 2. On CUDA, the head size is padded to a multiple of 8 before the kernel,
    and counted with the padding.
    """
    query, key, value = call["query"], call["key"], call["value"]
    positions_at = 3 - heads_at
    batch_heads = query.shape[0] * query.shape[heads_at]
    queries, keys = query.shape[positions_at], key.shape[positions_at]
    each = 2 * batch_heads * (qk * query.shape[-1] + v * value.shape[-1])
    full = queries * keys
    return Work(each * (causal_pairs(queries, keys, last_sees_all) if causal else full), each * full)


def _fused(qk: int, v: int, call: Arguments, last_sees_all: bool = False) -> Work:
    """FLOPs of the kernels behind `scaled_dot_product_attention`: (b, h, n, head_dim)."""
    return _products(call, call["is_causal"], qk, v, last_sees_all=last_sees_all)


def _flash(qk: int, v: int, call: Arguments) -> Work | None:
    """FLOPs of flash attention called directly: (b, n, h, head_dim)."""
    ragged = call["cum_seq_q"] is not None and call["cum_seq_q"].numel() > 0
    windows = (call.get("window_size_left"), call.get("window_size_right"))
    if ragged or any(size is not None and size >= 0 for size in windows):
        return None
    return _products(call, call["is_causal"], qk, v, heads_at=2, last_sees_all=True)


def _efficient(qk: int, v: int, call: Arguments) -> Work | None:
    """FLOPs of memory-efficient attention called directly: (b, n, h, head_dim).

    Mask type 1 is causal from the top left, and 2 from the bottom right.
    """
    mask = call["custom_mask_type"]
    if call["cu_seqlens_q"] is not None or call.get("window_size") or mask not in (0, 1, 2):
        return None
    return _products(call, mask > 0, qk, v, heads_at=2, last_sees_all=mask == 2)


def _native_attention(call: Arguments, query: str = "query", key: str = "key", feed_forward: int = 0) -> Work | None:
    """FLOPs of the evaluation path of `nn.MultiheadAttention`, including projections, and of `feed_forward` weights.

    Of nested sequences, those of unequal lengths are padded for the products of pairs. On a GPU, not all kernels do so.
    """
    queries, keys = (list(map(len, call[name].unbind())) for name in (query, key))
    if call[query].is_nested and not call[query].is_cpu:
        return None
    d = call[query].numel() // sum(queries)
    pairs = len(queries) * max(queries) * max(keys)
    return _unmasked(4 * d * (d * sum(queries + keys) + pairs) + 2 * sum(queries) * feed_forward)


def _encoder_layer(call: Arguments) -> Work | None:
    """FLOPs of the evaluation path of `nn.TransformerEncoderLayer`."""
    return _native_attention(call, "src", "src", call["ffn_weight_1"].numel() + call["ffn_weight_2"].numel())


def _unmasked(flops: int) -> Work:
    return Work(flops, flops)


# Operations from h_{t-1} to h_t, by cuDNN's mode number. Relu and tanh: product, sum, nonlinearity. LSTM:
# product, sum, gate, times cell, plus input, tanh, times output gate. GRU: product, sum, reset gate, times new, sum,
# tanh, difference, times update gate, sum.
_STEP = (3, 3, 7, 9)


def _steps(call: Arguments) -> int:
    """Return the sequential steps of a recurrent layer's input: (n, b, d), (b, n, d), or packed with `batch_sizes`."""
    if call["batch_sizes"]:
        return len(call["batch_sizes"])
    return call["input"].shape[1 if call["batch_first"] else 0]


def _recurrent_depth(call: Arguments) -> int:
    """Depth of all layers, forward or backward: of each layer, one product over all inputs, then n steps.

    The product must wait for the layers below. A step has as many operations as the chain from h_{t-1} to h_t when
    written out. The backward pass has the same depth, and the weights' gradients after its last step.
    """
    return call["num_layers"] * (_steps(call) * _STEP[call["mode"]] + 1)


def _onednn_depth(call: Arguments) -> int:
    # oneDNN runs one layer in one direction, and its input is (n, b, d). It ignores `num_layers` and `batch_first`.
    return call["input"].shape[0] * _STEP[call["mode"]] + 1


def _tokens(call: Arguments) -> int:
    return call["input"].numel() // call["input"].shape[-1]


def _cudnn(call: Arguments) -> Work:
    """FLOPs of all layers and directions: each matrix in `weight` once per token, including projections."""
    return _unmasked(2 * _tokens(call) * sum(w.numel() for w in call["weight"] if w.dim() == 2))


def _cudnn_backward(call: Arguments) -> Work:
    """Twice the FLOPs of the forward pass, minus those of gradients that are not requested."""
    matrices = [w for w in call["weight"] if w.dim() == 2]
    forward = _cudnn(call).flops
    to_input, to_state, _, to_weights = call["output_mask"]
    flops = 2 * forward if to_weights else forward
    directions = 2 if call["bidirectional"] else 1
    group = len(matrices) // (call["num_layers"] * directions)
    if not to_state:  # no product for h_0: the first step of each sequence, in every layer and direction
        sequences = call["batch_sizes"][0] if call["batch_sizes"] else _tokens(call) // _steps(call)
        flops -= 2 * sequences * sum(w.numel() for w in matrices[1::group])
    if not to_input:
        first_layer = matrices[: group * directions : group]
        flops -= 2 * _tokens(call) * sum(w.numel() for w in first_layer)
    return _unmasked(flops)


def _onednn(call: Arguments) -> Work:
    """FLOPs of one layer in one direction. `weight0` and `weight1` are its matrices."""
    return _unmasked(2 * _tokens(call) * (call["weight0"].numel() + call["weight1"].numel()))


def _onednn_backward(call: Arguments) -> Work:
    # oneDNN always computes the gradient of h_0, too.
    return _unmasked(4 * _tokens(call) * (call["weight1"].numel() + call["weight2"].numel()))


_SCALED_DOT_PRODUCT = [
    f"aten::_scaled_dot_product_{name}"
    for name in ("flash_attention_for_cpu", "efficient_attention", "cudnn_attention", "fused_attention_overrideable")
]
_FLASH = "aten::_scaled_dot_product_flash_attention"  # on CUDA
_ATTENTION: dict[str, Callable[..., Work | None]] = {
    **dict.fromkeys(_SCALED_DOT_PRODUCT, _fused),
    _FLASH: partial(_fused, last_sees_all=True),
    "aten::_flash_attention_forward": _flash,
    "aten::_efficient_attention_forward": _efficient,
}
# Products over the query's head size and over the value's, then the depth.
KERNELS = {
    # The scores; the weighted sum. In sequence: scores, softmax, weighted sum.
    **{name: Kernel(partial(work, 1, 1), 3) for name, work in _ATTENTION.items()},
    # The scores again, because a fused kernel computes them again (Dao et al. 2022, algorithm 4), dQ, dK; dV, and the
    # gradient of the weights. The backward pass of `math` consists of plain products, 4 of them. In sequence: scores,
    # softmax (beside it the gradient of the weights), gradient of the scores, gradients of queries and keys.
    **{
        f"{name.removesuffix('_forward')}_backward": Kernel(partial(work, 3, 2), 4) for name, work in _ATTENTION.items()
    },
    "aten::mkldnn_rnn_layer": Kernel(_onednn, _onednn_depth),
    "aten::mkldnn_rnn_layer_backward": Kernel(_onednn_backward, _onednn_depth),
    "aten::_cudnn_rnn": Kernel(_cudnn, _recurrent_depth),
    "aten::_cudnn_rnn_backward": Kernel(_cudnn_backward, _recurrent_depth),
    # Projections of queries, keys and values; attention; projection of the output.
    "aten::_native_multi_head_attention": Kernel(_native_attention, 5),
    # Two norms and two sums, attention, and a feed-forward block of product, nonlinearity, product.
    "aten::_transformer_encoder_layer_fwd": Kernel(_encoder_layer, 12),
}


# The operation that each backend leaves in the trace. The first match decides. `math` comes first, because a layer that
# falls back in one of two calls is not fast. Composite operations come last, because they appear whatever they call.
_TRACES = """
    _scaled_dot_product_attention_math: math
    _scaled_dot_product_flash_attention: flash
    _scaled_dot_product_efficient_attention: efficient
    _scaled_dot_product_cudnn_attention: cudnn
    _flash_attention_forward: flash
    _efficient_attention_forward: efficient
    _native_multi_head_attention: math
    mkldnn_rnn_layer: oneDNN
    _cudnn_rnn: cudnn
    aten::rnn_tanh: ATen loop
    aten::rnn_relu: ATen loop
    aten::gru: ATen loop
    aten::lstm: ATen loop
"""


def backend_name(operations: Iterable[str]) -> str:
    """Return which kernel ran: a name of `_TRACES`, or `ATen`. It is judged from all operations of a call.

    These include operations inside composite ones. It is `ATen` if only plain operations ran. It is `math` also if the
    evaluation path of `nn.MultiheadAttention` wrote the scores to memory.
    """
    # ATen's loop may lay out its weights for cuDNN too.
    seen = {operation for operation in operations if not operation.endswith("cudnn_rnn_flatten_weight")}
    traces = (line.strip().split(": ") for line in _TRACES.strip().splitlines())
    return next((name for trace, name in traces if any(trace in operation for operation in seen)), "ATen")


# The softmax for rows that a mask may have emptied: dispatched only by the math path.
_MATH_ALONE = "aten::_safe_softmax"


class Fallback:
    """Whether `scaled_dot_product_attention` took its slowest path although a faster one was allowed.

    `reason` describes the fallback, or is None. A layer pinned to `math` does not count as falling back.

    The fallback is detected from dispatched operations, while the backends are switched as the layer switches them. A
    mode that intercepts `scaled_dot_product_attention` itself would disable the evaluation path of
    `nn.MultiheadAttention`.
    """

    def __init__(self) -> None:
        self.reason: str | None = None

    def add(self, operation: Operation) -> None:
        """Inspect one operation."""
        if operation.traits.name != _MATH_ALONE:
            return
        backends = torch.backends.cuda  # as `sdpa_kernel` sets them; the CPU has only flash
        of_gpus = backends.mem_efficient_sdp_enabled() or backends.cudnn_sdp_enabled()
        if backends.flash_sdp_enabled() or (of_gpus and not operation.args[0].is_cpu):
            self.reason = "scaled_dot_product_attention fell back to math, which materialises the scores"


class PackedWeights:
    """The weights in objects of an operator's own, as quantized ones are: those among `things`."""

    def __init__(self, things: Iterable[Any] = ()) -> None:
        # Each dispatch wraps an object anew. Its hash is the address of what is wrapped.
        self.objects = {hash(thing): thing for thing in things if type(thing) is torch.ScriptObject}

    def add(self, operation: Operation) -> None:
        """Note the objects among the operation's arguments."""
        self.objects |= PackedWeights(tree_leaves([operation.args, operation.kwargs])).objects

    def bytes(self) -> int | None:
        """Return the bytes of the tensors in them, unpacked; None if one of them does not tell its state."""
        tensors, objects = [], [*self.objects.values()]
        try:
            while objects:
                parts = tree_leaves(objects.pop().__getstate__())
                tensors += [part for part in parts if isinstance(part, Tensor)]
                objects += [part for part in parts if isinstance(part, torch.ScriptObject)]
        except Exception:  # of any kind, from the class of the object
            return None
        return bytes_of(tensors)

    def reasons(self, operations: Iterable[str]) -> Iterator[str]:
        """Why sizes are unknown, for calls of these operations: a line for each reason, with the names of the facts."""
        if self.bytes() is None:
            yield "weights_bytes: an operator keeps weights in an object that does not tell its state"
        # Its weights are tensors of 8 bytes, the address of what is packed.
        if any(name.startswith("aten::fbgemm_") for name in operations):
            yield "weights_bytes, peak_bytes, first_call_bytes, kept_bytes: fbgemm does not tell the size of weights"
