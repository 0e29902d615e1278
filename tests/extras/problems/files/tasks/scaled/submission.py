from task import input_t
from torch import Tensor


def custom_kernel(data: input_t) -> Tensor:
    x, weight, output, scale = data
    output[...] = x @ (weight * scale)
    return output
