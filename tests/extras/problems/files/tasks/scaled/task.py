from torch import Tensor

input_t = tuple[Tensor, Tensor, Tensor, float]
