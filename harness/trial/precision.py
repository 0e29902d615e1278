"""float32 is float32: no kernel may round its factors to fewer bits because of a setting."""

from typing import Any

import torch

# Of cuDNN, what has a setting of its own since torch 2.9.
_PARTS_OF_CUDNN = ("conv", "rnn")


def exact_float32() -> None:
    """Have this process multiply float32 with all 24 bits of its factors, on the GPU and on the CPU.

    cuDNN's default is TF32, of 11 bits. That of cuBLAS is not, unless the environment says so, as NVIDIA's containers
    do (`TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1`), or the layer's own module, as many scripts do for their training
    (`torch.set_float32_matmul_precision("high")`).
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    # A setting for all of torch would else hold for these.
    for name in _PARTS_OF_CUDNN:
        part: Any = getattr(torch.backends.cudnn, name, None)
        if hasattr(part, "fp32_precision"):
            part.fp32_precision = "ieee"
