"""Layers whose computation is hard to observe, each named after it. Measured as `impl=planted_kernels:Name`."""

from functools import partial
from typing import Any, ClassVar

import torch
from planted import Identity, NoHeads
from torch import Tensor, nn


class Chain(Identity):
    """A chain of five operations, and one operation in parallel."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sin().cos().sin().cos() + x.exp()


class WritesSlices(Identity):
    """A loop over time in which no step depends on the previous one."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        for t in range(x.shape[1]):
            y[:, t] = x[:, t].tanh()
        return y


class AddsUpInPlace(Identity):
    """A loop over time in which every step depends on the previous one."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for t in range(x.shape[1]):
            total += x[:, t : t + 1]
        return total


class Sdpa(nn.Module):
    """Self-attention by `scaled_dot_product_attention`, which chooses the backend."""

    options: ClassVar[dict] = {}

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q = x.view(b, n, self.num_heads, -1).transpose(1, 2)
        return self.attend(q).transpose(1, 2).reshape(b, n, d)

    def attend(self, q: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(q, q, q, **self.options)


class CausalSdpa(Sdpa):
    options: ClassVar[dict] = {"is_causal": True}


class CausalBias(Sdpa):
    """Its mask is a tensor of torch's own subclass, made anew in each call."""

    def attend(self, q: Tensor) -> Tensor:
        from torch.nn.attention.bias import causal_lower_right  # imports the compiler, a second in every trial

        mask = causal_lower_right(q.shape[2], q.shape[2])
        return nn.functional.scaled_dot_product_attention(q, q, q, mask)


class FallsBackToMath(Sdpa):
    """Uses dropout, which the flash kernel for CPUs does not support."""

    options: ClassVar[dict] = {"dropout_p": 0.1}


class PinsMath(Sdpa):
    def attend(self, q: Tensor) -> Tensor:
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
            return super().attend(q)


class TorchMHA(nn.MultiheadAttention):
    """Runs as one opaque operation in evaluation mode."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x, x, x)[0]


class TorchEncoder(nn.TransformerEncoderLayer):
    """Runs as one opaque operation in evaluation mode. Its feed-forward block is 3d wide."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads, 3 * d_model, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class NestedEncoder(nn.TransformerEncoder):
    """The second half of every other sequence is padding. In evaluation mode torch makes nested tensors of them."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        layer = nn.TransformerEncoderLayer(d_model, num_heads, 3 * d_model, dropout=0.0, batch_first=True)
        super().__init__(layer, 1)

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        padding = torch.arange(n) >= n - n // 2 * (torch.arange(b)[:, None] % 2)
        return super().forward(x, src_key_padding_mask=padding)


class TorchLSTM(nn.LSTM):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model, d_model, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[0]


class TorchGRU(nn.GRU):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model, d_model, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[0]


class DeepBidirectionalLSTM(nn.Module):
    """Two layers and two directions, each of width d/2."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(d_model, d_model // 2, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


@torch.library.custom_op("planted::scan", mutates_args=())
def _scan(x: Tensor) -> Tensor:
    return x.cumsum(1)


class RunsItsOwnKernel(Identity):
    """Runs a custom operator without a declaration of its costs."""

    def forward(self, x: Tensor) -> Tensor:
        return _scan(x)


class DeclaresItsOwnKernel(RunsItsOwnKernel):
    kernels: ClassVar[dict] = {
        "planted::scan": {
            "flops": lambda x, out: 2 * x.numel(),
            "depth": lambda x, out: x.shape[1],
        }
    }


class DeclaresMoreThanAnyMachineDoes(RunsItsOwnKernel):
    kernels: ClassVar[dict] = {"planted::scan": {"flops": lambda x, out: 10**18, "depth": lambda x, out: 1}}


class MisdeclaresItsOwnKernel(RunsItsOwnKernel):
    kernels: ClassVar[dict] = {"planted::scan": {"flops": lambda x, out: -1.5}}


class IsCompiled(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = torch.compile(nn.Linear(d_model, d_model), backend="eager")

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x)


class _Dressed(Tensor):
    """A tensor subclass that unwraps itself in every operation."""

    @staticmethod
    def __new__(cls, plain: Tensor) -> "_Dressed":
        dressed = Tensor._make_wrapper_subclass(cls, plain.shape, dtype=plain.dtype)
        dressed.plain = plain
        return dressed

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*(a.plain if isinstance(a, _Dressed) else a for a in args), **(kwargs or {}))


class UsesATensorSubclass(Identity):
    def forward(self, x: Tensor) -> Tensor:
        return _Dressed(x).exp()


class Checkpoints(NoHeads):
    """Saves only its input for the backward pass and recomputes everything else."""

    def forward(self, x: Tensor) -> Tensor:
        from torch.utils.checkpoint import checkpoint

        return checkpoint(lambda y: self.mix(y).tanh().tanh(), x, use_reentrant=False)


class ChecksPointSelectively(NoHeads):
    """Saves its input, and the result of its product."""

    def forward(self, x: Tensor) -> Tensor:
        from torch.utils import checkpoint

        products = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
        contexts = partial(checkpoint.create_selective_checkpoint_contexts, products)
        return checkpoint.checkpoint(
            lambda y: self.mix(y).tanh().tanh(), x, use_reentrant=False, context_fn=contexts, preserve_rng_state=False
        )


class _DoublesByAttribute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.twice = torch.full_like(x, 2)
        return x * ctx.twice

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * ctx.twice


class KeepsOnContext(NoHeads):
    """Keeps an attribute of a Function for its backward pass."""

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(_DoublesByAttribute.apply(x) - x)


class KeepsForAHook(NoHeads):
    """Keeps a tensor for a hook of a gradient."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.mix(x)
        if y.requires_grad:
            ones = torch.ones_like(x)
            y.register_hook(lambda gradient: gradient * ones)
        return y


class Products(NoHeads):
    """Saves the result of its first product in training, and of `tanh` that of the second one."""

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(self.mix(x).tanh())


class PacksInHalf(Products):
    """Saves what is saved in bfloat16, beside the dtype that it had."""

    def forward(self, x: Tensor) -> Tensor:
        def pack(tensor: Tensor) -> tuple[Tensor, torch.dtype]:
            return tensor.bfloat16(), tensor.dtype

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed[0].to(packed[1])):
            return super().forward(x)


class SavesOnCpu(Products):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autograd.graph.save_on_cpu():
            return super().forward(x)


class SavesAside(Products):
    """Saves the numbers of tensors that it keeps itself."""

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []

        def pack(tensor: Tensor) -> int:
            kept.append(tensor.detach())
            return len(kept) - 1

        with torch.autograd.graph.saved_tensors_hooks(pack, kept.__getitem__):
            return super().forward(x)


class DoesManyThings(nn.Module):
    """Uses typical parts of layers in unusual ways: detached weights, buffers, indices and `item()`."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d_model, d_model, 3, padding=1)
        self.norm = nn.LayerNorm(d_model)
        self.scale = nn.Parameter(torch.ones(d_model))
        self.register_buffer("shift", torch.arange(d_model).float())

    def forward(self, x: Tensor) -> Tensor:
        y = self.convolution(self.norm(x).transpose(1, 2)).transpose(1, 2)  # (b, n, d)
        y = y * self.scale.detach() + self.scale.data * self.shift + torch.tensor(2.0)
        places = torch.arange(x.shape[1])
        z = torch.zeros_like(y)
        z[:, places] = y[:, places]
        if z.sum().item() > 1e9:
            z = z * 0
        with torch.no_grad():
            w = self.scale.clone().mul_(2).sqrt_()
        return torch.vmap(lambda one: one @ one.t() @ one)(z * w)


class ConvolvesInGroups(nn.Module):
    """Convolves each channel separately: 2·3·n·d FLOPs in the forward pass."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d_model, d_model, 3, padding=1, groups=d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x.mT).mT


class MultipliesInThrees(nn.Module):
    """Uses an operator for which the harness has no FLOP formula."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.bilinear = nn.Bilinear(d_model, d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.bilinear(x, x)


class HoldsAMask(Identity):
    """Holds n × n numbers, made at the first call and kept as a plain attribute."""

    mask: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.mask is None:
            self.mask = torch.ones(x.shape[1], x.shape[1])
        return self.mask @ x


class TiesItsWeights(nn.Module):
    """Has one matrix under two names, and a buffer of one number expanded to 1000 × d."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model, d_model))
        self.register_buffer("tied", self.weight.detach().mT)
        self.register_buffer("ones", torch.ones(1).expand(1000, d_model))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight @ self.tied + self.ones[0]
