"""Keep float32 exact: no setting may let a kernel round its factors to fewer bits."""

from typing import Any

import torch

# The parts of cuDNN with their own setting, since torch 2.9.
_PARTS_OF_CUDNN = ("conv", "rnn")


def exact_float32() -> None:
    """Make this process multiply float32 with all 24 bits of its factors, on the GPU and on the CPU.

    cuDNN uses TF32 by default, which has 11 bits. cuBLAS uses TF32 only if the environment or the layer's own module
    requests it. NVIDIA's containers set `TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1`. Many training scripts call
    `torch.set_float32_matmul_precision("high")`.
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    # Without its own setting, each part would follow the setting for all of torch.
    for name in _PARTS_OF_CUDNN:
        part: Any = getattr(torch.backends.cudnn, name, None)
        if hasattr(part, "fp32_precision"):
            part.fp32_precision = "ieee"
