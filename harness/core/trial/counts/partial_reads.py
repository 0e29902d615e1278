"""Which part of an argument an operation surely reads.

Some operators choose rows by values, stop early, use the shape alone or take long steps. The rest of such an argument
may stay untouched, as the experts do that no token chooses.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

# Nothing is surely read of these arguments of torch's operators, because the part that is read is not followed here.
_NOT_FOLLOWED = """
    take.self put_.self masked_select.self _unsafe_masked_index.self _unsafe_masked_index_put_accumulate.values
    index_add_.self index_reduce_.self index_put_.self _index_put_impl_.self scatter_.self scatter_add_.self
    scatter_reduce_.self masked_fill_.self masked_scatter_.self masked_scatter_.source masked_scatter.source
    tril_.self triu_.self trace.self equal.self equal.other isin.test_elements searchsorted.sorted_sequence
    searchsorted.sorter bucketize.boundaries histogram.bins
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
    segment_reduce.data
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
    cholesky_solve.input2 _cholesky_solve_helper.A _linalg_eigh.A linalg_ldl_factor_ex.self linalg_ldl_solve.LD
    linalg_householder_product.input ormqr.self
"""


def _mark_indexed(part: Tensor, indices: Sequence[Tensor | None]) -> None:
    part[tuple(slice(None) if index is None else index.cpu() for index in indices)] = True


def _rows(index: Tensor) -> Tensor:
    return index.cpu().long()


# What an operator reads of an argument, marked in a tensor of its shape. Each takes all arguments by name.
_MARKS: dict[str, Callable[..., object]] = {
    **dict.fromkeys(_NOT_FOLLOWED.split(), lambda part, **_: None),
    "embedding.weight": lambda part, indices, **_: part.index_fill_(0, _rows(indices).flatten(), True),
    "index_select.self": lambda part, dim, index, **_: part.index_fill_(dim, _rows(index), True),
    "gather.self": lambda part, dim, index, **_: part.scatter_(dim, _rows(index), True),
    "index.self": lambda part, indices, **_: _mark_indexed(part, indices),
    "constant_pad_nd.self": lambda part, pad, **_: min(pad) < 0 or part.fill_(True),  # a negative pad crops
    **dict.fromkeys(
        ("convolution.input", "convolution_backward.input"),
        # Longer steps leave out what lies between windows, or after the last one.
        lambda part, stride, transposed, **_: (max(stride) > 1 and not transposed) or part.fill_(True),
    ),
}


def marks_of(operator: str, arguments: Mapping[str, Any], tensor: Tensor) -> Callable[..., object] | None:
    """Return what marks the part of `tensor` that an operator reads, such as `aten::take`; None if it reads it all."""
    names = (name for name, value in arguments.items() if value is tensor)
    return _MARKS.get(f"{operator.removeprefix('aten::')}.{next(names, '')}")
