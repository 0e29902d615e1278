"""Layers that pack weights, for kernels of quantized numbers and of half precision."""

from typing import Any

import torch
from torch import Tensor, nn


class PackedUnused(nn.Module):
    """Its packed weights are used by no call."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model, bias=False)
        self.packed: Any = [self.pack()]

    def pack(self) -> Any:
        numbers = torch.quantize_per_tensor(self.mix.weight.detach(), 0.1, 0, torch.qint8)
        return torch.ops.quantized.linear_prepack(numbers, None)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x)


class PacksInEachCall(PackedUnused):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.packed.clear()

    def forward(self, x: Tensor) -> Tensor:
        self.packed.append(self.pack())
        return self.mix(x)


class PackedForHalf(PackedUnused):
    def pack(self) -> Any:
        return torch.ops.aten.fbgemm_pack_gemm_matrix_fp16(self.mix.weight.detach())

    def forward(self, x: Tensor) -> Tensor:
        zeros = torch.zeros(x.shape[-1])
        rows = torch.ops.aten.fbgemm_linear_fp16_weight_fp32_activation(x.flatten(0, 1), self.packed[0], zeros)
        return rows.view(x.shape)


class PacksForHalfInEachCall(PacksInEachCall):
    pack = PackedForHalf.pack
