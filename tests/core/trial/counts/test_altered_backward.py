"""Autograd takes other formulas for some backward passes while it is observed: their counts are real or unknown."""

from collections import Counter
from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from harness.core.trial.counts.flops import Flops
from harness.core.trial.counts.operations import Observer, Operation, Storages, operation_traits

N, D = 8, 6
ROWS = torch.tensor([3, 0, 0, 5])
COLUMNS = torch.arange(N * D).view(1, N, D) * 7 % D


def positive(x: Tensor) -> Tensor:
    return x.mT @ x + torch.eye(D)


def attention(x: Tensor, backend: SDPBackend, **options: bool | float) -> Tensor:
    with sdpa_kernel(backend):
        return functional.scaled_dot_product_attention(x[None], x[None] * 2, x[None], **options)


# An operator that runs otherwise, if one does: in the backward pass alone, but for `quantile`.
CALLS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "cumprod": (lambda x: x.cumprod(1), "cumprod"),
    "prod": (lambda x: x.prod(), "cumprod"),
    "prod of a dimension": (lambda x: x.prod(1), "cumprod"),
    "sort": (lambda x: x.sort(1)[0], "new_zeros"),
    "topk": (lambda x: x.topk(3, 1)[0], "new_zeros"),
    "max": (lambda x: x.max(), "isnan"),
    "max of a dimension": (lambda x: x.max(1)[0], "new_zeros"),
    "median": (lambda x: x.median(1)[0], "new_zeros"),
    "kthvalue": (lambda x: x.kthvalue(2, 1)[0], "new_zeros"),
    "matrix_exp": (lambda x: torch.linalg.matrix_exp(positive(x) / 64), "zeros_like"),
    "quantile": (lambda x: x.quantile(0.3, dim=1), "new_zeros"),
    "gather": (lambda x: x.gather(2, COLUMNS), ""),
    "take_along_dim": (lambda x: x.take_along_dim(COLUMNS, 2), ""),
    "index": (lambda x: x[:, ROWS], ""),
    "index_select": (lambda x: x.index_select(1, ROWS), ""),
    "index_add": (lambda x: x.index_add(1, ROWS, x[:, :4]), ""),
    "scatter": (lambda x: x.scatter(2, COLUMNS, x * 2), ""),
    "scatter_reduce": (lambda x: x.scatter_reduce(2, COLUMNS, x * 2, "amax"), ""),
    "cummax": (lambda x: x.cummax(1)[0], ""),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), ""),
    "amax": (lambda x: x.amax(1), ""),
    "norm": (lambda x: x.norm(dim=-1), ""),
    "renorm": (lambda x: x.renorm(2, 1, 1.0), ""),
    "cdist": (lambda x: torch.cdist(x, x * 2), ""),
    "roll": (lambda x: x.roll(1, 1), ""),
    "where": (lambda x: torch.where(x > 0, x, x * 2), ""),
    "take": (lambda x: x.take(COLUMNS), ""),
    "masked_select": (lambda x: x.masked_select(x > 0), ""),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 0.0), ""),
    "trace": (lambda x: x[0].trace(), ""),
    "atan2": (lambda x: torch.atan2(x, x * 2), ""),
    "solve": (lambda x: torch.linalg.solve(positive(x), x.mT), ""),
    "cholesky": (lambda x: torch.linalg.cholesky(positive(x)), ""),
    "eigh": (lambda x: torch.linalg.eigh(positive(x))[0], ""),
    "embedding": (lambda x: functional.embedding(ROWS, x[0]), ""),
    "conv1d": (lambda x: functional.conv1d(x.mT, x[:, :3].mT), ""),
    "layer_norm": (lambda x: functional.layer_norm(x, (D,)), ""),
    "batch_norm": (lambda x: functional.batch_norm(x.mT, None, None, training=True), ""),
    "gelu": (functional.gelu, ""),
    "softmax": (lambda x: x.softmax(-1), ""),
    "log_softmax": (lambda x: x.log_softmax(-1), ""),
    "dropout": (lambda x: functional.dropout(x, 0.5), ""),
    "linear": (lambda x: functional.linear(x, x[0], x[0, :, 0]), ""),
    "flash": (lambda x: attention(x, SDPBackend.FLASH_ATTENTION, is_causal=True), ""),
    "math": (lambda x: attention(x, SDPBackend.MATH, is_causal=True), ""),
    "attention with dropout": (lambda x: attention(x, SDPBackend.MATH, dropout_p=0.5), ""),
    "used twice": (lambda x: x.tanh() * x.exp() + x, ""),
}


def profiled(call: Callable[[], None]) -> list[str]:
    with torch.autograd.profiler.profile() as recorded:
        call()
    return [event.name() for event in recorded.kineto_results.events()]


@pytest.mark.parametrize("name", CALLS)
def test_an_operation_that_runs_under_observation_runs_in_a_real_call_or_is_named(name: str) -> None:
    call, altered = CALLS[name]
    x = torch.randn(1, N, D, requires_grad=True)

    def train() -> None:
        x.grad = None
        y = call(x)
        y.backward(torch.ones_like(y))

    flops = Flops(ran=profiled(train))
    with Observer(Storages(), [flops.add]):
        train()
    assert (f"aten::{altered}" in flops.altered) if altered else flops.altered == []
    if not altered:
        assert computing_under_profile(train, flops.in_place) == Counter()


def computing_under_profile(train: Callable[[], None], in_place: set[str]) -> Counter[str]:
    """How many operations more than in a real call run in an observed one, as the profiler sees both.

    An observed operation is dispatched twice. Views, which the profiler sees or not, do not count. Nor do operators
    that run in place in one of the calls alone, because those out of place call them.
    """
    computing: set[str] = set()

    def note(operation: Operation) -> None:
        if operation.results:
            computing.add(operation.traits.name)

    with Observer(Storages(), [note]):
        train()
    computing -= in_place | {f"{name}_" for name in in_place}
    observer = Observer(Storages(), ())

    def observed() -> None:
        with observer:
            train()

    def counted(names: Iterable[str]) -> Counter[str]:
        return Counter(name for name in names if name in computing)

    under_profile = counted(profiled(observed))
    again = counted(operation_traits(func).name for func, _ in observer.seen)
    return under_profile - again - counted(profiled(train))
