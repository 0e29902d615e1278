"""Which operators have FLOPs: every one that torch registers is in one of three tables, and unknown ones are told."""

import importlib
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import flop_registry

from harness.core.trial.counts import flops
from harness.core.trial.counts.flops import NO_PRODUCT, UNKNOWN, Flops, operator_table
from harness.core.trial.counts.opaque_kernels import KERNELS, Work
from harness.core.trial.counts.operations import Depth, Observer, Operation, Storages, operation_traits

N, D = 6, 4
TORCHS = ("aten", "prim", "prims", "profiler")


def registered() -> set[str]:
    """The operators of torch's own namespaces, by their names without overloads. Its compiler has some of its own."""
    importlib.import_module("torch._inductor.inductor_prims")
    names = {schema.name for schema in torch._C._jit_get_all_schemas()}
    return {name for name in names if name.partition("::")[0] in TORCHS}


def with_formula() -> set[str]:
    torchs_own = {f"aten::{packet.__name__}" for packet in flop_registry if hasattr(packet, "__name__")}
    products = {f"aten::{name}" for name in flops._PRODUCTS}
    fourier = {name for name in registered() if name.startswith("aten::_fft_")}
    return {*KERNELS, *products, *torchs_own, *fourier, "aten::convolution_backward"} - operator_table(UNKNOWN)


def test_an_operator_of_another_namespace_is_unknown_unless_the_layer_declares_it() -> None:
    others = {schema.name for schema in torch._C._jit_get_all_schemas()} - registered()
    assert "quantized::linear_dynamic" in others
    assert others.isdisjoint(with_formula() | operator_table(NO_PRODUCT))


def test_every_operator_that_torch_registers_is_in_a_table() -> None:
    listed = with_formula() | operator_table(NO_PRODUCT) | operator_table(UNKNOWN)
    assert registered() - listed == set()


def test_no_operator_is_in_two_tables() -> None:
    tables = [with_formula(), operator_table(NO_PRODUCT), operator_table(UNKNOWN)]
    assert sum(map(len, tables)) == len(set().union(*tables))


def test_what_torch_calls_pointwise_is_known_to_do_no_product() -> None:
    pointwise = {
        overload._schema.name
        for name in dir(torch.ops.aten)
        if isinstance(packet := getattr(torch.ops.aten, name), torch._ops.OpOverloadPacket)
        for overload in (getattr(packet, overload) for overload in packet.overloads())
        if torch.Tag.pointwise in overload.tags
    }
    assert pointwise - operator_table(NO_PRODUCT) == set()


def observed(call: Callable[[], Any], ran: tuple[str, ...] = ()) -> Flops:
    """The FLOPs of a call, and which of its operations declare no depth."""
    counted = Flops(ran=ran)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of prototypes, such as nested and sparse tensors
        storages = Storages()
        with Observer(storages, [counted.add, Depth(counted.declared_depth, storages).add]):
            call()
    return counted


def nested(*lengths: int) -> Tensor:
    return torch.nested.nested_tensor([torch.randn(length, D) for length in lengths])


def quantized_lstm() -> Callable[[], Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.LSTM(D, D, batch_first=True)), {nn.LSTM})
    return lambda: layer(torch.randn(1, N, D))


X, W = torch.randn(N, D), torch.randn(D, D)
COMPLEX = torch.randn(D, D, dtype=torch.complex64)


@pytest.mark.parametrize(
    ("call", "operator"),
    [
        (lambda: torch.cdist(torch.randn(64, D), torch.randn(64, D)), "aten::_euclidean_dist"),
        (lambda: torch.cdist(X, X), "aten::_cdist_forward"),
        (lambda: functional.pdist(X), "aten::_pdist_forward"),
        (quantized_lstm(), "aten::quantized_lstm"),
        (lambda: torch.matmul(nested(2, 3), nested(2, 3).transpose(1, 2)), "aten::matmul"),
        (lambda: torch.linalg.inv(W), "aten::linalg_inv_ex"),
        (lambda: torch.linalg.matrix_exp(W), "aten::linalg_matrix_exp"),
        (lambda: functional.ctc_loss(torch.randn(4, 1, 3), torch.tensor([[1, 2]]), [4], [2]), "aten::_ctc_loss"),
    ],
)
def test_an_operator_that_may_do_a_product_makes_the_work_unknown_and_is_named(
    call: Callable[[], Any], operator: str
) -> None:
    counted = observed(call)
    assert counted.work is None
    assert operator in counted.unknown


@pytest.mark.parametrize(
    ("call", "by_hand"),
    [
        (lambda: COMPLEX @ COMPLEX, 4 * 2 * D**3),  # (a + ib)(c + id): four products
        (lambda: torch.einsum("ij,jk->ik", COMPLEX, COMPLEX), 4 * 2 * D**3),
        (lambda: functional.linear(nested(2, 3), W), 2 * (2 + 3) * D**2),
        # x·W and its tangent t·W + x·T.
        (lambda: torch.func.jvp(torch.mm, (X, W), (torch.ones_like(X), torch.ones_like(W))), 3 * 2 * N * D**2),
        # Torch also multiplies by W's tangent, zeros.
        (lambda: torch.func.jvp(lambda x: x @ W, (X,), (torch.ones_like(X),)), 3 * 2 * N * D**2),
        (lambda: torch.kron(X, W), 0),
        (lambda: functional.layer_norm(X, (D,)).softmax(-1).cumsum(0), 0),
    ],
)
def test_work_that_is_known_is_what_is_counted_by_hand(call: Callable[[], Any], by_hand: int) -> None:
    counted = observed(call)
    assert counted.unknown == []
    assert counted.work == Work(by_hand, by_hand)


# The products that every other one consists of, and the place of the first factor among their arguments.
FACTORS_AT = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1, "aten::_addmm_activation": 1}


def products_seen_by_the_profiler(call: Callable[[], Any]) -> int:
    """The FLOPs of the matrix products that ran, whatever called them, by the shapes that torch's profiler records."""
    with torch.autograd.profiler.profile(record_shapes=True) as recorded:
        call()
    flops = 0
    for event in recorded.function_events:
        if event.name in FACTORS_AT:
            first, second = event.input_shapes[FACTORS_AT[event.name] :][:2]
            flops += 2 * math.prod(first) * second[-1]
    return flops


def attention_layer() -> Callable[[], Any]:
    layer = nn.MultiheadAttention(D, 2, batch_first=True).eval()
    x = torch.randn(2, N, D)
    return lambda: layer(x, x, x, need_weights=False)


def encoder_layer() -> Callable[[], Any]:
    layer = nn.TransformerEncoderLayer(D, 2, 8, batch_first=True).eval()
    x = torch.randn(2, N, D)
    return lambda: layer(x)


def encoder_of_unequal_lengths() -> Callable[[], Any]:
    """Torch nests the sequences, and pads them to the longest one, of N - 1 tokens, for the products of their pairs."""
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 8, batch_first=True), 2).eval()
    x, padding = torch.randn(3, N, D), torch.arange(N) >= torch.tensor([[N - 1], [2], [1]])
    return lambda: layer(x, src_key_padding_mask=padding)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype")
@pytest.mark.parametrize(
    "call",
    [
        lambda: functional.linear(X, W),
        lambda: torch.addmm(X, X, W),
        lambda: torch.tensordot(X, W, 1),
        lambda: torch.einsum("bij,bjk->bik", torch.randn(3, N, D), torch.randn(3, D, N)),
        attention_layer(),
        encoder_layer(),
        encoder_of_unequal_lengths(),
    ],
)
def test_the_products_that_the_profiler_sees_are_those_that_are_counted(call: Callable[[], Any]) -> None:
    with torch.no_grad():
        counted = observed(call)
        assert counted.work is not None
        assert counted.work.flops == products_seen_by_the_profiler(call)


def test_the_distance_of_all_pairs_runs_a_product_that_is_not_told_as_0() -> None:
    q = torch.randn(64, D)
    assert products_seen_by_the_profiler(lambda: torch.cdist(q, q)) == 2 * 64 * 64 * (D + 2)
    assert observed(lambda: torch.cdist(q, q)).work is None


def test_a_loop_inside_an_operator_has_no_depth_unless_it_is_declared() -> None:
    assert observed(quantized_lstm()).undeclared == ["aten::quantized_lstm"]
    assert observed(lambda: X @ W).undeclared == []


def m(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor without content: a formula takes shapes and dtypes alone."""
    return torch.empty(shape, device="meta", dtype=dtype)


# Sequences, heads, queries, keys, and the width of a head. All differ, so that no factor stands for another.
B, H, Q, K, E = 2, 3, 5, 7, 4
QKV = {"query": m(B, H, Q, E), "key": m(B, H, K, E), "value": m(B, H, K, E), "is_causal": False}
HEADS_LAST = {"query": m(B, Q, H, E), "key": m(B, K, H, E), "value": m(B, K, H, E), "is_causal": False}
BIASED = {"cu_seqlens_q": None, "cum_seq_q": None, "custom_mask_type": 0, "bias": None}
# The scores, and the weighted values. Backward: the scores again, and gradients of weights, values, queries and keys.
FORWARD, BACKWARD = 2 * 2 * B * H * Q * K * E, 5 * 2 * B * H * Q * K * E
SDPA = "aten::_scaled_dot_product_"
FUSED = ("flash_attention", "efficient_attention", "cudnn_attention", "fused_attention_overrideable")
# One step of an RNN without gates, d to d: products with the input and with the state.
RNN = {"input": m(B, Q, D), "weight": [m(D, D), m(D, D), m(D), m(D)], "mode": 1, "num_layers": 1, "batch_first": True}
CUDNN = {**RNN, "bidirectional": False, "batch_sizes": [], "output_mask": [True, True, True, True]}
ONEDNN = {"input": m(Q, B, D), "mode": 1}
RNN_WORK = B * Q * 2 * 2 * D * D
# Five kernels of width 3 over 2 channels of 10 numbers: 8 positions each.
X1, K1, CONV = m(1, 2, 10), m(5, 2, 3), 2 * 8 * 5 * 2 * 3
HOW1 = ([1], [0], [1], False, [0], 1)
A, C = m(3, 4), m(4, 6)

# For each operator with a formula: its arguments, the shape of its result, and its FLOPs by hand.
BY_HAND: dict[str, tuple[Any, tuple[int, ...], int]] = {
    "aten::mm": ((A, C), (3, 6), 144),
    "aten::_int_mm": ((A, C), (3, 6), 144),
    "aten::linear": ((A, m(6, 4)), (3, 6), 144),
    "aten::mkldnn_linear": ((A, m(6, 4)), (3, 6), 144),
    "aten::mv": ((A, m(4)), (3,), 24),
    "aten::dot": ((m(5), m(5)), (), 10),
    "aten::vdot": ((m(5), m(5)), (), 10),
    "aten::bmm": ((m(2, 3, 4), m(2, 4, 6)), (2, 3, 6), 288),
    "aten::addmm": ((m(3, 6), A, C), (3, 6), 144),
    "aten::addmm_": ((m(3, 6), A, C), (3, 6), 144),
    "aten::_addmm_activation": ((m(6), A, C), (3, 6), 144),
    "aten::baddbmm": ((m(2, 3, 6), m(2, 3, 4), m(2, 4, 6)), (2, 3, 6), 288),
    "aten::baddbmm_": ((m(2, 3, 6), m(2, 3, 4), m(2, 4, 6)), (2, 3, 6), 288),
    "aten::addbmm": ((m(3, 6), m(2, 3, 4), m(2, 4, 6)), (3, 6), 288),
    "aten::addbmm_": ((m(3, 6), m(2, 3, 4), m(2, 4, 6)), (3, 6), 288),
    "aten::addmv": ((m(3), A, m(4)), (3,), 24),
    "aten::addmv_": ((m(3), A, m(4)), (3,), 24),
    "aten::_scaled_mm": ((A, C, m(), m()), (3, 6), 144),
    "aten::convolution": ((X1, K1, None, *HOW1), (1, 5, 8), CONV),
    "aten::convolution_overrideable": ((X1, K1, None, *HOW1), (1, 5, 8), CONV),
    "aten::_convolution": ((X1, K1, None, *HOW1, False, False, True, True), (1, 5, 8), CONV),
    "aten::cudnn_convolution": ((X1, K1, [0], [1], [1], 1, False, False, True), (1, 5, 8), CONV),
    # The gradients of the input and of the weights.
    "aten::convolution_backward": ((m(1, 5, 8), X1, K1, [5], *HOW1, [True, True, True]), (1, 2, 10), 2 * CONV),
    # 5 N lg N for N = 64, and half of it where one side is real.
    "aten::_fft_c2c": ((m(64, dtype=torch.complex64), [0], 0, True), (64,), 5 * 64 * 6),
    "aten::_fft_r2c": ((m(64), [0], 0, True), (33,), 5 * 64 * 6 // 2),
    "aten::_fft_c2r": ((m(33, dtype=torch.complex64), [0], 0, 64), (64,), 5 * 64 * 6 // 2),
    **{f"{SDPA}{kernel}": (QKV, (B, H, Q, E), FORWARD) for kernel in (*FUSED, "flash_attention_for_cpu")},
    **{f"{SDPA}{kernel}_backward": (QKV, (B, H, Q, E), BACKWARD) for kernel in (*FUSED, "flash_attention_for_cpu")},
    **{f"aten::_{kernel}_forward": (HEADS_LAST | BIASED, (B, Q, H, E), FORWARD) for kernel in FUSED[:2]},
    **{f"aten::_{kernel}_backward": (HEADS_LAST | BIASED, (B, Q, H, E), BACKWARD) for kernel in FUSED[:2]},
    "aten::_cudnn_rnn": (CUDNN, (B, Q, D), RNN_WORK),
    # Each product has two gradients. That of the state before the first step is among them.
    "aten::_cudnn_rnn_backward": (CUDNN, (B, Q, D), 2 * RNN_WORK),
    "aten::mkldnn_rnn_layer": (ONEDNN | {"weight0": m(D, D), "weight1": m(D, D)}, (Q, B, D), RNN_WORK),
    "aten::mkldnn_rnn_layer_backward": (ONEDNN | {"weight1": m(D, D), "weight2": m(D, D)}, (Q, B, D), 2 * RNN_WORK),
    # Queries, scores, values and output of Q tokens; keys and values of K.
    "aten::_native_multi_head_attention": (
        {"query": m(B, Q, D), "key": m(B, K, D), "value": m(B, K, D)},
        (B, Q, D),
        2 * B * (2 * Q * D * D + 2 * K * D * D + 2 * Q * K * D),
    ),
    "aten::_transformer_encoder_layer_fwd": (
        {"src": m(B, Q, D), "ffn_weight_1": m(8, D), "ffn_weight_2": m(D, 8)},
        (B, Q, D),
        2 * B * (4 * Q * D * D + 2 * Q * Q * D + 2 * Q * 8 * D),
    ),
}


# These are no operators but functions of functions: see test_flex.py.
@pytest.mark.parametrize("name", sorted(with_formula() - {"aten::flex_attention", "aten::flex_attention_backward"}))
def test_each_formula_is_what_is_counted_by_hand(name: str) -> None:
    given, shape, by_hand = BY_HAND[name]
    func = getattr(torch.ops.aten, name.removeprefix("aten::"))
    overload = func.default if "default" in func.overloads() else getattr(func, func.overloads()[0])
    args, kwargs = (given, {}) if isinstance(given, tuple) else ((), given)
    dtype = torch.complex64 if name == "aten::_fft_c2c" else torch.float32
    out = m(*shape, dtype=dtype)
    operation = Operation(overload, operation_traits(overload), args, kwargs, out, *[[] for _ in range(5)])
    work = Flops()._of(operation)
    assert work is not None
    assert work.flops == by_hand
