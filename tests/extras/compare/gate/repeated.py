"""Layers that call a real one several times: `AttentionFused21` does 5 % more of that work than `AttentionFused20`."""

from typing import Any, ClassVar

from extras.compare.gate.planting import CALLS, IMPLS, class_name
from torch import Tensor, nn

from harness.core.layers import layer_lookup


class Repeated(nn.Module):
    """The layer's output: the mean of `times` equal ones."""

    impl: ClassVar[str]
    times: ClassVar[int]
    family = "repeated"
    has_heads = True

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        options: dict[str, Any] = layer_lookup.build_options(self.impl)
        if self.impl.startswith("attention"):
            options["num_heads"] = num_heads
        self.layer = layer_lookup.load_class(self.impl)(d_model=d_model, **options)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        for _ in range(self.times - 1):
            y = self.layer(x)
        return y


for _impl in IMPLS:
    for _share, _calls in CALLS.items():
        for _times in (_calls, _calls + round(_calls * _share)):
            _class = class_name(_impl, _times)
            globals()[_class] = type(_class, (Repeated,), {"impl": _impl, "times": _times, "__module__": __name__})
