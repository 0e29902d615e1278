"""Layers with a planted fault or habit, each what its name says. Measured as `impl=planted:Name`."""

import os
import signal
import subprocess
import time
from typing import ClassVar

import torch
from torch import Tensor, nn

from impls.attention.naive import NaiveAttention


class Identity(nn.Module):
    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x * 1.0


class NoHeads(nn.Module):
    family = "mixers"

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x)


class ClaimsTooLittle(NoHeads):
    """A matrix product of n·d² multiply-adds, each of which is 2."""

    claims: ClassVar[dict] = {"work": "nd²"}


class RefusesShort(Identity):
    @staticmethod
    def supports(case) -> str | None:
        return "needs 64 tokens or more" if case.seq_len < 64 else None


class ForgetsTheScale(NaiveAttention):
    reference = "attention.naive"

    def head(self, x: Tensor, i: int) -> Tensor:
        return super().head(x, i) * self.head_dim**0.5


class ForgetsTheKeys(NaiveAttention):
    """Right outputs, wrong gradients: the keys' are cut off."""

    reference = "attention.naive"

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y + (y.detach() - y) * 0.5


class Sleeps(Identity):
    def forward(self, x: Tensor) -> Tensor:
        time.sleep(60)
        return x


class SleepsWhenLong(Identity):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > 64:
            time.sleep(60)
        return x * 1.0


class Greedy(Identity):
    def forward(self, x: Tensor) -> Tensor:
        hoard = []
        while True:
            hoard.append(torch.ones(2**24))


class KillsItself(Identity):
    def forward(self, x: Tensor) -> Tensor:
        os.kill(os.getpid(), signal.SIGKILL)
        return x


class ExitsQuietly(Identity):
    def forward(self, x: Tensor) -> Tensor:
        os._exit(0)


class ClosesEveryFile(Identity):
    def forward(self, x: Tensor) -> Tensor:
        os.closerange(0, 256)
        time.sleep(60)
        return x


class LeavesAChild(Identity):
    """A child that holds the trial's pipe open, ignores SIGTERM and would live for a minute."""

    def forward(self, x: Tensor) -> Tensor:
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(60)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
        return x


class StartsADaemon(Identity):
    """A process in a session of its own, which no signal to the trial's group reaches."""

    def forward(self, x: Tensor) -> Tensor:
        subprocess.Popen(["sleep", "4713"], start_new_session=True)
        return x * 1.0


class StartsADaemonAndSleeps(StartsADaemon):
    def forward(self, x: Tensor) -> Tensor:
        super().forward(x)
        time.sleep(60)
        return x


class Drops(Identity):
    """Dropout draws anew at each call."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.5, self.training)


class HasAFloat32Constant(Identity):
    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.eye(x.shape[-1])


class RaisesInConstructor(Identity):
    def __init__(self, d_model: int, num_heads: int) -> None:
        raise RuntimeError("no such luck")


class ReturnsATuple(Identity):
    def forward(self, x: Tensor) -> tuple:
        return x, None


class ReturnsTheWrongShape(Identity):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :-1]


class ReturnsNaN(Identity):
    def forward(self, x: Tensor) -> Tensor:
        return x * float("nan")


class ReturnsGarbage(Identity):
    def forward(self, x: Tensor) -> Tensor:
        return torch.randn_like(x) if torch.initial_seed() else torch.empty_like(x).uniform_(-1, 1) * x.dtype.itemsize


class Chatters(Identity):
    def forward(self, x: Tensor) -> Tensor:
        print("chatter" * 1000)
        return x * 1.0


NotALayer = 3


class Chain(Identity):
    """Five operations in sequence, and one beside them."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sin().cos().sin().cos() + x.exp()


class WritesSlices(Identity):
    """A loop over time in which no step needs the one before."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        for t in range(x.shape[1]):
            y[:, t] = x[:, t].tanh()
        return y


class AddsUpInPlace(Identity):
    """A loop over time in which every step needs the one before."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for t in range(x.shape[1]):
            total += x[:, t : t + 1]
        return total


class Sdpa(nn.Module):
    """Attention of its input with itself, by `scaled_dot_product_attention`, which chooses the backend."""

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


class FallsBackToMath(Sdpa):
    """The CPU's flash kernel takes no dropout."""

    options: ClassVar[dict] = {"dropout_p": 0.1}


class PinsMath(Sdpa):
    def attend(self, q: Tensor) -> Tensor:
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
            return super().attend(q)


class TorchMHA(nn.MultiheadAttention):
    """Evaluated, it runs as one opaque operation."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x, x, x)[0]


class TorchEncoder(nn.TransformerEncoderLayer):
    """Evaluated, it runs as one opaque operation. Its feed-forward block is 3d wide."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads, 3 * d_model, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


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
    """Two layers, two directions, each d/2 wide."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(d_model, d_model // 2, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


@torch.library.custom_op("planted::scan", mutates_args=())
def _scan(x: Tensor) -> Tensor:
    return x.cumsum(1)


class RunsItsOwnKernel(Identity):
    """A kernel that nobody knows anything of."""

    def forward(self, x: Tensor) -> Tensor:
        return _scan(x)


class DeclaresItsOwnKernel(RunsItsOwnKernel):
    kernels: ClassVar[dict] = {
        "planted::scan": {
            "flops": lambda x, out: 2 * x.numel(),
            "depth": lambda x, out: x.shape[1],
        }
    }


class MisdeclaresItsOwnKernel(RunsItsOwnKernel):
    kernels: ClassVar[dict] = {"planted::scan": {"flops": lambda x, out: -1.5}}


class IsCompiled(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = torch.compile(nn.Linear(d_model, d_model), backend="eager")

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x)


class _Dressed(Tensor):
    """A tensor of a class of its own, which unwraps itself in every operation."""

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
    """Saves nothing but its input, and computes again what it needs."""

    def forward(self, x: Tensor) -> Tensor:
        from torch.utils.checkpoint import checkpoint

        return checkpoint(lambda y: self.mix(y).tanh().tanh(), x, use_reentrant=False)


class DoesManyThings(nn.Module):
    """What layers are made of, by ways that are not plain: detached weights, buffers, indices, a look at a number."""

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
