"""The bare library calls that our layers wrap: what a user would write who only wants the one result."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import linear, scaled_dot_product_attention

Call = Callable[[], Tensor]


def fused(layer: nn.Module, x: Tensor) -> Call:
    """Projection, SDPA, projection, with the layer's own weights."""
    w_in, b_in = layer.in_proj_weight.detach(), layer.in_proj_bias.detach()
    w_out, b_out = layer.out_proj.weight.detach(), layer.out_proj.bias.detach()
    b, n, d = x.shape
    h = layer.num_heads

    def call() -> Tensor:
        qkv = linear(x, w_in, b_in).view(b, n, 3, h, d // h).permute(2, 0, 3, 1, 4)
        out = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        return linear(out.transpose(1, 2).reshape(b, n, d), w_out, b_out)

    return call


def fused_math(layer: nn.Module, x: Tensor) -> Call:
    """The same, SDPA allowed its plain products alone, by torch's own context manager around all of it."""
    bare = fused(layer, x)

    def call() -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return bare()

    return call


def module(layer: nn.Module, x: Tensor, need_weights: bool = False) -> Call:
    """`nn.MultiheadAttention` called as its documentation says."""
    theirs = nn.MultiheadAttention(x.shape[-1], layer.num_heads, batch_first=True).eval()
    theirs.load_state_dict(layer.state_dict())
    return lambda: theirs(x, x, x, need_weights=need_weights)[0]


def module_weights(layer: nn.Module, x: Tensor) -> Call:
    return module(layer, x, need_weights=True)


def recurrent(kind: type[nn.RNNBase]) -> Callable[[nn.Module, Tensor], Call]:
    """`nn.RNN`, `nn.GRU` or `nn.LSTM`."""

    def of(layer: nn.Module, x: Tensor) -> Call:
        theirs = kind(x.shape[-1], x.shape[-1], batch_first=True).eval()
        theirs.load_state_dict(layer.state_dict())
        return lambda: theirs(x)[0]

    return of


def conv1d(layer: nn.Module, x: Tensor) -> Call:
    """`nn.Conv1d` over a sequence whose channels come last."""
    d = x.shape[-1]
    theirs = nn.Conv1d(d, d, 3, padding=1).eval()
    theirs.load_state_dict(dict(zip(theirs.state_dict(), layer.state_dict().values(), strict=True)))
    return lambda: theirs(x.transpose(1, 2)).transpose(1, 2)


def compiled(layer: nn.Module, x: Tensor) -> Call:
    """`torch.compile` of `attention.packed`."""
    from impls.attention.plain import PackedAttention

    eager = PackedAttention(x.shape[-1], layer.num_heads).eval()
    eager.load_state_dict(layer.state_dict())
    theirs = torch.compile(eager, fullgraph=True, dynamic=False)
    return lambda: theirs(x)


def flex(layer: nn.Module, x: Tensor) -> Call:
    """Compiled FlexAttention, with a block mask made beforehand, between two projections."""
    from torch.nn.attention.flex_attention import flex_attention

    theirs = torch.compile(flex_attention, fullgraph=True, dynamic=False)
    w_in, b_in = layer.in_proj_weight.detach(), layer.in_proj_bias.detach()
    w_out, b_out = layer.out_proj.weight.detach(), layer.out_proj.bias.detach()
    b, n, d = x.shape
    h, block_mask = layer.num_heads, layer.prepare(x)["block_mask"]

    def call() -> Tensor:
        q, k, v = linear(x, w_in, b_in).view(b, n, 3, h, d // h).permute(2, 0, 3, 1, 4).unbind(0)
        return linear(theirs(q, k, v, block_mask=block_mask).transpose(1, 2).reshape(b, n, d), w_out, b_out)

    return call


WRAPPED: dict[str, Callable[[nn.Module, Tensor], Call]] = {
    "attention.fused": fused,
    "attention.fused.math": fused_math,
    "attention.module": module,
    "attention.module.weights": module_weights,
    "attention.compiled": compiled,
    "attention.flex": flex,
    "rnn.torch": recurrent(nn.RNN),
    "rnn.gru.torch": recurrent(nn.GRU),
    "rnn.lstm.torch": recurrent(nn.LSTM),
    "conv.conv1d": conv1d,
}
