"""Layers that are right up to some size or in some precision and wrong beyond; and some that take full tiles only."""

import sys
import threading
import time
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

# The largest n that is verified.
VERIFIED = 256


class _Linear(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)


class HalfItsTokens(_Linear):
    """Beyond what is verified it returns the first half of them."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.mix(x)
        return y if x.shape[1] <= VERIFIED else y[:, : x.shape[1] // 2]


class NoNumbers(_Linear):
    """Beyond what is verified its last token is no number."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.mix(x)
        bad = torch.arange(x.shape[1]).view(1, -1, 1) >= max(VERIFIED, x.shape[1] - 1)
        return y.masked_fill(bad, float("nan"))


class NoNumbersInPadding(_Linear):
    """What comes out for padding is anybody's."""

    causal = True

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        y: Tensor = self.mix(x)
        return y if attn_mask is None else y.masked_fill(~attn_mask[:, 0, 0, :, None], float("nan"))


class ZerosInHalf(_Linear):
    """In half precision a kernel that does nothing."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.mix(x)
        return y if x.dtype == torch.float32 or x.dtype == torch.float64 else torch.zeros_like(y)


class Tiles(_Linear):
    """It takes tiles of 96 tokens, says so, and breaks where it is not heard."""

    tile = 96

    @classmethod
    def supports(cls, case: Any) -> str | None:
        return f"n must be a multiple of {cls.tile}" if case.seq_len % cls.tile else None

    def forward(self, x: Tensor) -> Tensor:
        b, _, d = x.shape
        return self.mix(x.reshape(b, -1, self.tile, d)).reshape(x.shape)


class LargeTiles(Tiles):
    """No n that is verified otherwise has one."""

    tile = 384


class PowerTiles(Tiles):
    """It does not say so; every n that it is asked for is a multiple."""

    tile = 128
    supports = None  # type: ignore[assignment]


class LateAttention(nn.Module):
    """Attention that beyond what is verified leaves out the last keys."""

    reference = "sdpa.naive"
    input_width = 3

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    def forward(self, x: Tensor, is_causal: bool = False) -> Tensor:
        q, k, v = (each.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for each in x.chunk(3, dim=-1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        if x.shape[1] > VERIFIED:
            seen = slice(None, VERIFIED)
            late = nn.functional.scaled_dot_product_attention(q[:, :, VERIFIED:], k[:, :, seen], v[:, :, seen])
            y = torch.cat([y[:, :, :VERIFIED], late], dim=2)
        return y.transpose(1, 2).flatten(2)


class ForgetsKeysInTraining(LateAttention):
    """Its output is right at every n. Its keys get no gradient beyond what is verified."""

    def forward(self, x: Tensor, is_causal: bool = False) -> Tensor:
        q, k, v = (each.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for each in x.chunk(3, dim=-1))
        k = k.detach() if x.shape[1] > VERIFIED else k
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        return y.transpose(1, 2).flatten(2)


class LateRecurrence(nn.RNN):
    """A recurrence that starts again from zero after what is verified."""

    reference = "rnn.elman"
    causal = True

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model, d_model, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        parts: list[Tensor] = [super(LateRecurrence, self).forward(part)[0] for part in x.split(VERIFIED, dim=1)]
        return torch.cat(parts, dim=1)


class SlowReference(_Linear):
    """The same product, token by token and in many operations."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([sum((self.mix(x_t) / 100 for _ in range(100)), x_t * 0) for x_t in x.unbind(1)], dim=1)


class HasASlowReference(_Linear):
    reference = SlowReference

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x)


class CausalWithASlowReference(HasASlowReference):
    causal = True


class DrawsRandomNumbers(CausalWithASlowReference):
    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x) + 0 * torch.rand_like(x)


class SleepingReference(_Linear):
    """It takes a second, for however few tokens."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        SleepingReference.calls += 1
        time.sleep(1)
        return self.mix(x)


class HasASleepingReference(HasASlowReference):
    reference = SleepingReference


class WithAState(CausalWithASlowReference):
    """It can go on from a state, which holds nothing, as each token is computed alone."""

    def start(self, batch_size: int, seq_len: int) -> Tensor:
        return self.mix.weight.new_zeros(batch_size)

    def step(self, x_t: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.mix(x_t), state

    def prefill(self, x: Tensor, state: Tensor) -> Tensor:
        return state


class LateWithAState(WithAState):
    """Its last token is that of another place beyond what is verified."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.mix(x)
        return y if x.shape[1] <= VERIFIED else torch.cat([y[:, :-1], y[:, :1]], dim=1)


class WithoutAStateInFloat64(WithAState):
    """It goes on from a state in float32 alone."""

    def prefill(self, x: Tensor, state: Tensor) -> Tensor:
        if x.dtype == torch.float64:
            raise ValueError("no float64 kernel")
        return state


class EarlyWithoutAStateInFloat64(WithoutAStateInFloat64):
    """Its first token is that of another place beyond what is verified."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.mix(x)
        return y if x.shape[1] <= VERIFIED else torch.cat([y[:, -1:], y[:, 1:]], dim=1)


class InFloat32Alone(_Linear):
    """Its kernel for float32 is wrong beyond what is verified. It has no reference."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.mix(x)
        return y if x.shape[1] <= VERIFIED or x.dtype == torch.float64 else y.flip(1)


class Lazy(Tensor):
    """A tensor that computes its values when somebody reads them."""


class ReturnsLazily(_Linear):
    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x).as_subclass(Lazy)


class LazyAfterSomeCalls(_Linear):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        y: Tensor = self.mix(x)
        return y if self.calls < 8 else y.as_subclass(Lazy)


class ReturnsBeforeItsResult(_Linear):
    """A thread of its own writes the output. It waits for the thread, except where only time is measured."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.mix(x)
        late = torch.zeros_like(y)

        def work() -> None:
            time.sleep(30e-3)
            late.copy_(y)

        thread = threading.Thread(target=work)
        thread.start()
        if not _is_called_by("running_after"):
            thread.join()
        return late


def _is_called_by(name: str) -> bool:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == name:
            return True
    return False


class WorksOn(_Linear):
    """Its output is right when it returns, and a thread of its own goes on for a while."""

    thread: threading.Thread | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.thread is None or not self.thread.is_alive():
            self.thread = threading.Thread(target=_multiply, daemon=True)
            self.thread.start()
        y: Tensor = self.mix(x)
        return y


class WorksOnInPlace(WorksOn):
    """The same, and it changes its input."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        with torch.no_grad():
            x.mul_(0.5)
        return y


class LowersThreads(_Linear):
    """It lowers the number of torch's threads, of which some end then."""

    def forward(self, x: Tensor) -> Tensor:
        torch.set_num_threads(2)
        torch.zeros(2**20).add(1)
        return self.mix(x)


class Sparse(_Linear):
    """Its output is right, and sparse."""

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x).to_sparse()


class WorksLater(_Linear):
    """Calls leave work to a thread, which rests for a moment before it begins."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.called = threading.Event()
        threading.Thread(target=self.work, daemon=True).start()

    def forward(self, x: Tensor) -> Tensor:
        self.called.set()
        y: Tensor = self.mix(x)
        return y

    def work(self) -> None:
        square = torch.ones(100, 100)
        while self.called.wait():
            time.sleep(6e-3)
            self.called.clear()
            end = perf_counter() + 2e-3
            while perf_counter() < end:
                square @ square


def _multiply() -> None:
    square = torch.ones(400, 400)
    for _ in range(400):
        square @ square


class HasAnIdleThread(_Linear):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        threading.Thread(target=threading.Event().wait, daemon=True).start()

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x)


class StartsWithABusyThread(_Linear):
    """As one that imports a library whose threads spin for a while before they sleep."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.busy_until = time.monotonic() + 0.2
        threading.Thread(target=self.spin, daemon=True).start()

    def spin(self) -> None:
        square = torch.ones(100, 100)
        while time.monotonic() < self.busy_until:
            square @ square
        threading.Event().wait()

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x)


class SlowsTheClock(_Linear):
    """Each call sleeps for 2 ms. The clock that others read afterwards runs a thousand times too slowly."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        real, wait = perf_counter, time.sleep
        self.wait = lambda: wait(2e-3)
        time.perf_counter = time.monotonic = time.process_time = lambda: real() / 1000

    def forward(self, x: Tensor) -> Tensor:
        self.wait()
        return self.mix(x)


class PreparesMuch(_Linear):
    """Its calls are short, because `prepare` takes 20 ms."""

    def prepare(self, x: Tensor, **keywords: Any) -> dict[str, Any]:
        time.sleep(20e-3)
        return {**keywords, "weight": self.mix.weight.t().contiguous()}

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        return self.mix(x) if weight is None else x @ weight + self.mix.bias


class PreparesItsResult(_Linear):
    """`prepare` computes the output, and a call only returns it."""

    def prepare(self, x: Tensor, **keywords: Any) -> dict[str, Any]:
        return {"y": self.mix(x)}

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        return self.mix(x) if y is None else y * 1.0


def slow_sum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each query times the sum of the products of keys and values up to its own: (b, h, n, D), a loop over n."""
    state, outputs = torch.zeros_like(q[:, :, 0]), []
    for at in range(q.shape[2]):
        state = state + k[:, :, at] * v[:, :, at]
        outputs.append(q[:, :, at] * state)
    return torch.stack(outputs, 2)


def causal_sum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same at once."""
    return q * (k * v).cumsum(2)


def late_sum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """It is off by a hundredth beyond what is verified."""
    return causal_sum(q, k, v) * (1.01 if q.shape[2] > VERIFIED else 1.0)


def dear_sum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same by all pairs of tokens, of which there are n²."""
    pairs = (k * v)[:, :, None] * torch.ones(q.shape[2], q.shape[2], dtype=q.dtype).tril()[..., None]
    return q * pairs.sum(3)


def causal_sum_of_pairs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As `causal_sum`, beside a reference that takes all pairs."""
    return causal_sum(q, k, v)


causal_sum_of_pairs.causal, causal_sum_of_pairs.reference = True, dear_sum  # type: ignore[attr-defined]
for _sum in (causal_sum, late_sum):
    _sum.causal, _sum.reference = True, slow_sum  # type: ignore[attr-defined]


def masked(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
    """Softmax attention in float32 and float64 alone."""
    if q.dtype == torch.bfloat16:
        raise ValueError("float32 or float64")
    q = q if rows is None else q[:, :, rows]
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return (scores if attn_mask is None else scores.masked_fill(~attn_mask, -torch.inf)).softmax(-1) @ v


def has_a_masked_reference(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=is_causal)


def late_in_any_dtype(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    y = scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    return y if y.shape[2] <= VERIFIED else y.flip(2)


has_a_masked_reference.reference = late_in_any_dtype.reference = masked  # type: ignore[attr-defined]
