"""Work that torch's own counter does not see, against counts done by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.trial.counts.flops import Flops
from harness.core.trial.counts.opaque_kernels import KERNELS, Work, causal_pairs
from harness.core.trial.counts.operations import Observer, Storages

B, N, D, H = 2, 10, 8, 2


def facts(runner: Executor, impl: str, mode: str = "forward") -> dict:
    outcome = runner.run("facts", Case(impl, N, D, H, batch_size=B, mode=mode))
    assert outcome.status == "ok", outcome.reason
    return dict(outcome.values)


def work_of(call: Any, *args: Any, **kwargs: Any) -> Work | None:
    flops = Flops()
    with Observer(Storages(), [flops.add]):
        call(*args, **kwargs)
    return flops.work


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (3, 7), (7, 3)])
def test_a_causal_mask_leaves_as_many_pairs_as_its_matrix_has_ones(queries: int, keys: int) -> None:
    assert causal_pairs(queries, keys) == torch.ones(queries, keys).tril().sum()


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (3, 7), (7, 3)])
def test_a_mask_from_the_bottom_right_leaves_as_many_pairs_as_its_matrix_has_ones(queries: int, keys: int) -> None:
    ones = torch.ones(queries, keys).tril(keys - queries).sum()
    assert causal_pairs(queries, keys, last_sees_all=True) == ones
    if queries <= keys:
        assert ones == queries * keys - queries * (queries - 1) // 2


def test_kernels_that_align_a_causal_mask_at_the_bottom_right_are_counted_so() -> None:
    heads_first = dict(zip(("query", "key", "value"), (torch.empty(2, 4, n, 8) for n in (3, 7, 7)), strict=True))
    tokens_first = {name: tensor.transpose(1, 2) for name, tensor in heads_first.items()}
    efficient = {"cu_seqlens_q": None, "window_size": None}
    pairs = {
        "_scaled_dot_product_flash_attention": (heads_first | {"is_causal": True}, 18),
        "_scaled_dot_product_flash_attention_for_cpu": (heads_first | {"is_causal": True}, 6),
        "_flash_attention_forward": (tokens_first | {"is_causal": True, "cum_seq_q": None}, 18),
        "_efficient_attention_forward": (tokens_first | efficient | {"custom_mask_type": 2}, 18),
    }
    for name, (call, left) in pairs.items():
        assert KERNELS[f"aten::{name}"].work(call) == Work(2 * 2 * 4 * 16 * left, 2 * 2 * 4 * 16 * 21), name
    call = tokens_first | efficient | {"custom_mask_type": 1}
    assert KERNELS["aten::_efficient_attention_forward"].work(call) == Work(2 * 2 * 4 * 16 * 6, 2 * 2 * 4 * 16 * 21)


@pytest.mark.parametrize("impl", ["CausalSdpa", "CausalBias"])
def test_causal_work_is_what_the_mask_leaves_with_the_full_work_beside_it(impl: str, runner: Executor) -> None:
    forward = facts(runner, f"planted_kernels:{impl}")
    assert forward["facts_unknown"] == []
    assert forward["flops_full"] == B * 4 * N * N * D
    assert forward["flops"] == B * 4 * N * (N + 1) // 2 * D
    train = facts(runner, f"planted_kernels:{impl}", "train")
    assert train["flops_full"] == B * (4 + 10) * N * N * D
    assert train["flops"] == B * (4 + 10) * N * (N + 1) // 2 * D


@pytest.mark.parametrize(
    ("impl", "forward", "train"),
    [
        ("TorchLSTM", 16 * N * D**2, 48 * N * D**2),  # oneDNN goes back into h_0 as well
        ("TorchGRU", 12 * N * D**2, 36 * N * D**2 - 6 * D**2),
        # Two directions d/2 wide: the first layer reads d, the second the d of both.
        ("DeepBidirectionalLSTM", 4 * 8 * N * (D // 2) * (D + D // 2), 12 * 8 * N * (D // 2) * (D + D // 2)),
        ("TorchMHA", 8 * N * D**2 + 4 * N**2 * D, 24 * N * D**2 + 12 * N**2 * D),
        ("TorchEncoder", 20 * N * D**2 + 4 * N**2 * D, 60 * N * D**2 + 14 * N**2 * D),
    ],
)
def test_layers_of_torch_do_the_work_that_their_formulas_say(
    runner: Executor, impl: str, forward: int, train: int
) -> None:
    assert facts(runner, f"planted_kernels:{impl}")["flops"] == B * forward
    assert facts(runner, f"planted_kernels:{impl}", "train")["flops"] == B * train


def test_an_encoder_of_nested_sequences_pads_them_for_the_products_of_pairs_alone(runner: Executor) -> None:
    nested = facts(runner, "planted_kernels:NestedEncoder")
    assert nested["facts_unknown"] == []
    assert nested["flops"] == 20 * (N + N // 2) * D**2 + B * 4 * N**2 * D


@pytest.mark.parametrize(
    ("call", "shapes", "flops"),
    [
        (torch.mv, [(3, 4), (4,)], 24),
        (torch.dot, [(5,), (5,)], 10),
        (torch.addmv, [(3,), (3, 4), (4,)], 24),
        (torch.addbmm, [(3, 5), (2, 3, 4), (2, 4, 5)], 240),
        (torch.mm, [(3, 4), (4, 5)], 120),
        (torch.baddbmm, [(2, 3, 5), (2, 3, 4), (2, 4, 5)], 240),
        (torch.nn.functional.conv1d, [(1, 2, 10), (4, 2, 3)], 2 * 8 * 4 * 2 * 3),
        (torch.tanh, [(100,)], 0),
        (torch.sum, [(100,)], 0),
        (torch.nn.functional.normalize, [(3, 100)], 0),
    ],
)
def test_a_multiply_add_is_two_and_elementwise_work_is_not_counted(call: Any, shapes: list, flops: int) -> None:
    assert work_of(call, *(torch.randn(shape) for shape in shapes)) == Work(flops, flops)


@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        (torch.mm, [(3, 4), (4, 5)]),
        (torch.bmm, [(2, 3, 4), (2, 4, 5)]),
        (torch.addmm, [(3, 5), (3, 4), (4, 5)]),
        (torch.baddbmm, [(2, 3, 5), (2, 3, 4), (2, 4, 5)]),
    ],
)
def test_matrix_products_are_counted_as_torch_counts_them(call: Any, shapes: list) -> None:
    factors = [torch.randn(shape) for shape in shapes]
    with FlopCounterMode(display=False) as theirs:
        call(*factors)
    work = work_of(call, *factors)
    assert work is not None
    assert work.flops == theirs.get_total_flops()


def test_a_product_into_memory_that_is_given_is_the_same_work() -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    assert work_of(torch.mm, a, b, out=torch.empty(3, 5)) == Work(120, 120)


def test_a_fourier_transform_is_5_n_lg_n() -> None:
    work = work_of(torch.fft.fft, torch.randn(3, 64, dtype=torch.complex64))
    assert work == Work(3 * 5 * 64 * 6, 3 * 5 * 64 * 6)


@pytest.mark.parametrize("solver", [torch.linalg.inv, torch.linalg.cholesky])
def test_a_solver_is_unknown_rather_than_free(solver: Any) -> None:
    assert work_of(solver, torch.eye(4)) is None


def test_a_kernel_without_a_formula_makes_the_work_unknown_and_is_named(runner: Executor) -> None:
    found = facts(runner, "planted_kernels:RunsItsOwnKernel")
    assert (found["flops"], found["flops_full"]) == (None, None)
    assert any("planted::scan has no formula" in line for line in found["facts_unknown"])
    assert found["peak_bytes"] > 0


def test_a_layer_may_declare_the_work_of_its_own_kernel(runner: Executor) -> None:
    found = facts(runner, "planted_kernels:DeclaresItsOwnKernel")
    assert found["flops"] == 2 * B * N * D


def test_a_declaration_that_is_no_whole_number_is_refused(runner: Executor) -> None:
    outcome = runner.run("facts", Case("planted_kernels:MisdeclaresItsOwnKernel", N, D, 1))
    assert outcome.status == "error"
    assert "kernels['planted::scan']['flops'] gave -1.5" in outcome.reason


def on_meta(*shape: int) -> Tensor:
    """A tensor without content: torch dispatches the GPU's kernels for it without a GPU."""
    return torch.empty(*shape, device="meta")


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("_scaled_dot_product_flash_attention", (0.0, True)),
        ("_scaled_dot_product_efficient_attention", (None, True, 0.0, True)),
        ("_scaled_dot_product_cudnn_attention", (None, True, 0.0, True)),
    ],
)
def test_the_attention_kernels_of_a_gpu_are_counted_by_shape(name: str, rest: tuple) -> None:
    q, k, v = on_meta(B, H, N, 16), on_meta(B, H, N, 16), on_meta(B, H, N, 16)
    pairs = N * (N + 1) // 2
    assert work_of(getattr(torch.ops.aten, name), q, k, v, *rest) == Work(B * H * 64 * pairs, B * H * 64 * N * N)


def test_memory_efficient_attention_of_another_value_size_counts_each_product_by_its_own() -> None:
    work = KERNELS["aten::_scaled_dot_product_efficient_attention_backward"].work(
        {"query": on_meta(1, 1, 4, 8), "key": on_meta(1, 1, 6, 8), "value": on_meta(1, 1, 6, 2), "is_causal": False}
    )
    assert work == Work(2 * 24 * (3 * 8 + 2 * 2), 2 * 24 * (3 * 8 + 2 * 2))


def cudnn_call(layers: int = 1, directions: int = 1, gates: int = 1, **more: Any) -> dict[str, Any]:
    weights = []
    for layer in range(layers):
        for _ in range(directions):
            width = D if layer == 0 else D * directions
            weights += [on_meta(gates * D, width), on_meta(gates * D, D), on_meta(gates * D), on_meta(gates * D)]
    call = {"input": on_meta(B, N, D), "weight": weights, "mode": 1, "num_layers": layers, "batch_first": True}
    return call | {"bidirectional": directions == 2, "batch_sizes": []} | more


def test_cudnns_recurrence_does_the_work_of_the_loop_and_is_as_deep() -> None:
    forward, backward = KERNELS["aten::_cudnn_rnn"], KERNELS["aten::_cudnn_rnn_backward"]
    call = cudnn_call(output_mask=[True, False, False, True])
    assert forward.work(call) == Work(B * 4 * N * D**2, B * 4 * N * D**2)
    assert backward.work(call).flops == B * (8 * N * D**2 - 2 * D**2)
    assert forward.depth(call) == backward.depth(call) == 3 * N + 1


def test_cudnns_layers_directions_and_gates_multiply() -> None:
    kernel = KERNELS["aten::_cudnn_rnn_backward"]
    call = cudnn_call(layers=2, directions=2, gates=4, mode=2, output_mask=[False, True, True, True])
    per_token = 2 * 4 * D * (2 * (D + D) + 2 * (2 * D + D))
    to_input = 2 * 4 * D * 2 * D
    assert kernel.work(call).flops == B * N * (2 * per_token - to_input)
    assert kernel.depth(call) == 2 * (7 * N + 1)


def test_packed_sequences_count_their_own_tokens_and_steps() -> None:
    call = cudnn_call(output_mask=[True, False, False, True]) | {"input": on_meta(7, D), "batch_sizes": [3, 2, 1, 1]}
    assert KERNELS["aten::_cudnn_rnn"].work(call).flops == 7 * 4 * D**2
    assert KERNELS["aten::_cudnn_rnn_backward"].work(call).flops == 7 * 8 * D**2 - 3 * 2 * D**2
    assert KERNELS["aten::_cudnn_rnn"].depth(call) == 3 * 4 + 1


def test_attention_called_by_itself_has_its_heads_last_but_one_and_is_unknown_where_its_window_is() -> None:
    q = on_meta(B, N, H, 4)
    call = {"query": q, "key": q, "value": q, "is_causal": False, "cum_seq_q": None}
    flash = KERNELS["aten::_flash_attention_forward"]
    assert flash.work(call) == Work(B * 4 * N * N * H * 4, B * 4 * N * N * H * 4)
    assert flash.work(call | {"window_size_left": 3}) is None
    efficient = KERNELS["aten::_efficient_attention_forward"]
    call = {"query": q, "key": q, "value": q, "custom_mask_type": 1, "cu_seqlens_q": None}
    assert efficient.work(call).flops == B * 4 * N * (N + 1) // 2 * H * 4
    assert efficient.work(call | {"custom_mask_type": 3}) is None


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_with_a_formula_is_one_that_torch_has(name: str) -> None:
    assert hasattr(torch.ops.aten, name.removeprefix("aten::"))
