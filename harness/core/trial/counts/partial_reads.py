"""Which part of an argument an operation surely reads.

Some operators choose rows by values, stop early, use the shape alone or take long steps. The rest of such an argument
may stay untouched, as the experts do that no token chooses.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Nothing is surely read of these arguments of torch's operators, because the part that is read is not followed here.
_NOT_FOLLOWED = """
    masked_select.self _unsafe_masked_index.self _unsafe_masked_index_put_accumulate.values
    index_reduce_.self scatter_reduce_.self masked_fill_.self masked_scatter_.self masked_scatter_.source
    masked_scatter.source tril_.self triu_.self trace.self equal.self equal.other isin.test_elements
    searchsorted.sorted_sequence searchsorted.sorter bucketize.boundaries histogram.bins
    grid_sampler_2d.input grid_sampler_3d.input _grid_sampler_2d_cpu_fallback.input cudnn_grid_sampler.self
    grid_sampler_2d_backward.input grid_sampler_3d_backward.input _grid_sampler_2d_cpu_fallback_backward.input
    cudnn_grid_sampler_backward.self
    _embedding_bag.weight _embedding_bag_forward_only.weight _embedding_bag_dense_backward.grad
    _embedding_bag_per_sample_weights_backward.weight embedding_renorm_.self
    nll_loss_forward.self nll_loss_forward.weight nll_loss_backward.self nll_loss_backward.weight
    nll_loss2d_forward.self nll_loss2d_forward.weight nll_loss2d_backward.self nll_loss2d_backward.weight
    multilabel_margin_loss_forward.target _ctc_loss.log_probs _ctc_loss.targets _ctc_loss_backward.log_probs
    _ctc_loss_backward.log_alpha _ctc_loss_backward.targets
    _masked_softmax.self _masked_softmax_backward.grad_output _masked_softmax_backward.output
    _grouped_mm.self _grouped_mm.mat2 _scaled_grouped_mm.self _scaled_grouped_mm.mat2 _scaled_grouped_mm.scale_a
    _scaled_grouped_mm.scale_b _scaled_grouped_mm_v2.self _scaled_grouped_mm_v2.mat2
    _flash_attention_forward.query _flash_attention_forward.key _flash_attention_forward.value
    _flash_attention_backward.grad_out _flash_attention_backward.query _flash_attention_backward.key
    _flash_attention_backward.value _flash_attention_backward.out
    _efficient_attention_forward.query _efficient_attention_forward.key _efficient_attention_forward.value
    _efficient_attention_backward.grad_out_ _efficient_attention_backward.query _efficient_attention_backward.key
    _efficient_attention_backward.value _efficient_attention_backward.out
    _cudnn_attention_forward.query _cudnn_attention_forward.key _cudnn_attention_forward.value
    _pack_padded_sequence.input _padded_dense_to_jagged_forward.dense _jagged_to_padded_dense_forward.values
    _nested_from_padded.padded _nested_from_padded_and_nested_example.padded _nested_tensor_from_mask.t
    segment_reduce.data lu_unpack.LU_data lu_unpack.LU_pivots
    grid_sampler_2d_backward.grad_output grid_sampler_3d_backward.grad_output
    slice_scatter.self select_scatter.self diagonal_scatter.self as_strided_scatter.self
    slice_copy.self select_copy.self narrow_copy.self as_strided_copy.self diagonal_copy.self unfold_copy.self
    fractional_max_pool2d.self fractional_max_pool3d.self fractional_max_pool2d_backward.self
    fractional_max_pool3d_backward.self avg_pool2d_backward.self avg_pool3d_backward.self
    max_pool2d_with_indices_backward.self max_pool3d_with_indices_backward.self _adaptive_avg_pool2d_backward.self
    _adaptive_avg_pool3d_backward.self adaptive_max_pool2d_backward.self adaptive_max_pool3d_backward.self
    reflection_pad1d_backward.self reflection_pad2d_backward.self reflection_pad3d_backward.self
    replication_pad1d_backward.self replication_pad2d_backward.self replication_pad3d_backward.self
    upsample_nearest1d.self upsample_nearest2d.self upsample_nearest3d.self _upsample_nearest_exact1d.self
    _upsample_nearest_exact2d.self _upsample_nearest_exact3d.self upsample_linear1d.self upsample_bilinear2d.self
    upsample_bicubic2d.self upsample_trilinear3d.self
    scatter.src scatter_.src scatter_add.src scatter_add_.src scatter_reduce.src scatter_reduce_.src
    tril.self triu.self _unsafe_index.self embedding_dense_backward.grad_output im2col.self avg_pool2d.self
    avg_pool3d.self max_pool2d_with_indices.self max_pool3d_with_indices.self
    linalg_solve_triangular.self triangular_solve.A linalg_cholesky_ex.self cholesky_inverse.self
    native_layer_norm_backward.bias cholesky_solve.input2 _cholesky_solve_helper.A
    linalg_ldl_solve.LD _linalg_eigh.A linalg_ldl_factor_ex.self
    linalg_householder_product.input ormqr.self
"""


_PADS = """
    reflection_pad1d.self reflection_pad2d.self reflection_pad3d.self
    replication_pad1d.self replication_pad2d.self replication_pad3d.self
"""


def _mark_indexed(part: Tensor, indices: Any, **_: Any) -> None:
    part[tuple(slice(None) if index is None else index.cpu() for index in indices)] = True


_HOW = "stride padding dilation transposed output_padding"


def _mark_windows(part: Tensor, argument: str, result: Any, **call: Any) -> None:
    """Mark what contributes to a convolution's output or to its gradients, by products of ones."""
    needed, output = call.get("output_mask", (True, True, True)), call.get("grad_output", result)
    factors = [torch.ones(1, 1, *tensor.shape[2:]) for tensor in (output, call["input"], call["weight"])]
    how = [call[name] for name in _HOW.split()]
    if argument == "grad_output":
        sums, is_needed = torch.ops.aten.convolution(*factors[1:], None, *how, 1), True
        part |= needed[2]
    else:
        at = argument == "weight"
        sums = torch.ops.aten.convolution_backward(*factors, None, *how, 1, (True, True, False))[at]
        is_needed = needed[not at]
    part |= (sums > 0.5) & is_needed


_ATTENTION = """
    _scaled_dot_product_flash_attention.key _scaled_dot_product_flash_attention.value
    _scaled_dot_product_flash_attention_for_cpu.key _scaled_dot_product_flash_attention_for_cpu.value
    _scaled_dot_product_efficient_attention.key _scaled_dot_product_efficient_attention.value
    _scaled_dot_product_cudnn_attention.key _scaled_dot_product_cudnn_attention.value
    _scaled_dot_product_fused_attention_overrideable.key _scaled_dot_product_fused_attention_overrideable.value
    _scaled_dot_product_flash_attention_backward.key _scaled_dot_product_flash_attention_backward.value
    _scaled_dot_product_flash_attention_for_cpu_backward.key _scaled_dot_product_flash_attention_for_cpu_backward.value
    _scaled_dot_product_efficient_attention_backward.key _scaled_dot_product_efficient_attention_backward.value
    _scaled_dot_product_cudnn_attention_backward.key _scaled_dot_product_cudnn_attention_backward.value
    _scaled_dot_product_fused_attention_overrideable_backward.key
    _scaled_dot_product_fused_attention_overrideable_backward.value
"""


_Marks = list[tuple[str, Callable[..., object]]]
# What an operator chooses of an argument by number, to read or to change it. Each takes all arguments by name, and a
# tensor of the argument's shape, in which it marks them.
_CHOSEN: _Marks = [
    ("embedding.weight", lambda part, indices, **_: _mark_indexed(part, [indices])),
    (
        "index_select.self index_copy_.self index_fill_.self index_add_.self index_reduce_.self",
        lambda part, dim, index, **_: part.index_fill_(dim, index.cpu().long(), True),
    ),
    (
        "gather.self scatter_.self scatter_add_.self scatter_reduce_.self",
        lambda part, dim, index, **_: part.scatter_(dim, index.cpu().long(), True),
    ),
    ("index.self index_put_.self _index_put_impl_.self", _mark_indexed),
    ("take.self put_.self", lambda part, index, **_: part.view(-1).index_fill_(0, index.cpu().flatten(), True)),
]
# What an operator surely reads of other arguments.
_SURE: _Marks = [
    (_NOT_FOLLOWED, lambda part, **_: None),
    # From the top left, the last query sees no later key.
    (
        _ATTENTION,
        lambda part, query, is_causal, **_: part[..., : query.shape[-2] if is_causal else None, :].fill_(True),
    ),
    # A negative pad crops.
    ("constant_pad_nd.self", lambda part, pad, **_: min(pad) < 0 or part.fill_(True)),
    (_PADS, lambda part, padding, **_: min(padding) < 0 or part.fill_(True)),
    (
        "native_batch_norm_backward.running_mean native_batch_norm_backward.running_var",
        lambda part, train, **_: train or part.fill_(True),
    ),
    ("col2im.self", lambda part, padding, **_: max(padding) > 0 or part.fill_(True)),
    (
        "convolution.input convolution.weight convolution_backward.input convolution_backward.weight "
        "convolution_backward.grad_output",
        _mark_windows,
    ),
]
_MARKS = [{name: mark for names, mark in table for name in names.split()} for table in (_CHOSEN, _CHOSEN + _SURE)]
# The names of the operators in the tables.
CHOOSING, _MARKED = ({name.partition(".")[0] for name in marks} for marks in _MARKS)


def part_of(operation: Any, tensor: Tensor, surely: bool = False) -> Tensor | None:
    """Which elements of an argument an operation chooses by number, or `surely` reads or writes; None for all."""
    operator = operation.traits.name.removeprefix("aten::")
    if operator not in _MARKED or tensor.is_meta:  # without data, no index tells what it chooses
        return None
    arguments = operation.arguments()
    named = {name: f"{operator}.{name}" for name, value in arguments.items() if value is tensor}
    is_in_list = sum(one is tensor for one in operation.inputs) > len(named)  # as an index, which is read whole
    if is_in_list or not named or not _MARKS[surely].keys() >= {*named.values()}:
        return None
    part = torch.zeros(tensor.shape, dtype=torch.bool)
    for name, place in named.items():
        _MARKS[surely][place](part, argument=name, result=operation.out, **arguments)
    return part


_IS_DENSE = torch.ops.aten.is_non_overlapping_and_dense.default


class Cells:
    """A number for each element of each storage, 0 at first. A storage has one number as long as all are alike."""

    def __init__(self, storages: Any, dtype: torch.dtype) -> None:
        self._storages, self._dtype = storages, dtype
        self._alike: dict[int, int] = {}
        self._cells: dict[int, tuple[int, Tensor]] = {}  # with the bytes of a cell
        self._freed: dict[tuple[int, int], int] = {}

    def highest(self, tensor: Tensor, choose: Callable[[], Tensor | None] = lambda: None) -> int:
        """Return the highest number of a tensor's elements, or of those that `choose` returns."""
        key = self._storages.key(tensor)
        if key not in self._cells:
            return self._alike.get(key, 0)
        numbers, chosen = self._view(key, tensor), choose()
        needed = numbers if chosen is None else numbers * chosen[..., None]
        return int(needed.max()) if needed.numel() else 0

    def change(self, number: int, tensor: Tensor, chosen: Tensor | None = None) -> None:
        """Change the numbers of a tensor, or of its `chosen` elements."""
        self._update(lambda before: number, tensor, chosen)

    def add(self, bit: int, tensor: Tensor, chosen: Tensor | None = None, unless: int = 0) -> None:
        """Add a bit to the numbers of a tensor, or of its `chosen` elements, but not where the bit `unless` is."""
        self._update(lambda before: before | bit * (before & unless == 0), tensor, chosen)

    def _update(self, of: Callable[[Any], Any], tensor: Tensor, chosen: Tensor | None) -> None:
        key = self._storages.key(tensor)
        if not self._replace(key, of(self._alike.get(key, 0)), tensor, chosen):
            numbers = self._view(key, tensor)
            updated = of(numbers)
            if chosen is not None:
                # An expanded dimension has its numbers once.
                chosen = chosen[..., None][tuple(slice(length) for length in numbers.shape)]
                updated = torch.where(chosen, updated, numbers)
            numbers[...] = updated

    def _replace(self, key: int, number: int, tensor: Tensor, chosen: Tensor | None) -> bool:
        """Replace the one number of a storage. Return False if it has several, or is to have them."""
        if key in self._cells:
            return False
        before, nbytes = self._alike.get(key, 0), self._storages.nbytes[key]
        if number != before:
            is_part = chosen is not None or tensor.nbytes != nbytes or not _IS_DENSE(tensor)
            if is_part and not tensor.is_nested:
                for freed in self._cells.keys() & self._storages.freed:
                    self._freed |= {(freed, bit): self.bytes(freed, bit) for bit in (1, 2, 3)}
                    del self._cells[freed]
                size = tensor.element_size()
                self._cells[key] = size, torch.full((-(-nbytes // size),), before, dtype=self._dtype)
                return False
            self._alike[key] = number
        return True

    def _view(self, key: int, tensor: Tensor) -> Tensor:
        """Return the numbers of a tensor as a view of shape (…, cells of an element)."""
        (unit, cells), size = self._cells[key], tensor.element_size()
        if size < unit:
            self._cells[key] = unit, cells = size, cells.repeat_interleave(unit // size)
        ratio = size // unit
        shape = [1 if stride == 0 else length for length, stride in zip(tensor.shape, tensor.stride(), strict=True)]
        strides = [stride * ratio for stride in tensor.stride()]
        return cells.as_strided([*shape, ratio], [*strides, 1], tensor.storage_offset() * ratio)

    def bytes(self, key: int, bits: int) -> int:
        """Return how many bytes of a storage have a number with these bits."""
        if key in self._cells:
            unit, cells = self._cells[key]
            return unit * int((cells & bits == bits).count_nonzero())
        is_whole = self._alike.get(key, 0) & bits == bits
        return self._freed.get((key, bits), self._storages.nbytes[key] * is_whole)
