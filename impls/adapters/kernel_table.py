"""Kernels of the kernels package and of flash-linear-attention, a line each. Importing this file does not import torch.

To add a kernel, add a line to `KERNELS`. Nothing else has to change.
"""

from dataclasses import dataclass, field
from typing import Any

_FUNCTIONS = "impls.adapters.kernels"
_SOFTMAX = "impls.sdpa.layers:SdpaReference"
_RECURRENCE = f"{_FUNCTIONS}:linear_recurrence"
# The version branch of the kernels on the Hub.
VERSION = 1


@dataclass(frozen=True)
class Kernel:
    """One kernel: where it is, how it is called, and what it must compute.

    - `source`: its repository on the Hugging Face Hub, or its module, such as `fla.ops.gla`.
    - `function`: its name there. `what`: a line for the list of layers.
    - `called`: the function of `impls.adapters.kernels` that calls it, which has its inputs and their layout.
    - `capability`: the least compute capability of the GPU.
    - `gates`: the kernel's names for the inputs after q, k and v. `keywords`: further arguments.
    - `trains`: whether it has a backward pass. `memory`: the order that its layer claims.
    """

    source: str
    function: str
    what: str
    called: str = "softmax"
    reference: str = _SOFTMAX
    capability: tuple[int, int] = (8, 0)
    memory: str = "nd"
    gates: tuple[str, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)
    trains: bool = True

    @property
    def is_on_hub(self) -> bool:
        """Whether the kernels package loads it."""
        return "/" in self.source

    @property
    def load_call(self) -> str:
        """The expression that loads a repository of the Hub, for a user to type."""
        return f"get_kernel('{self.source}', version={VERSION})"

    def user_call(self, is_causal: bool) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """How its user calls it: what to import, as `module:name`, the keyword arguments, and two more facts.

        `named` are its names for the inputs after q, k and v, and `loaded` follows the imported name to get the kernel.
        """
        target, loaded = f"{self.source}:{self.function}", ""
        if self.is_on_hub:
            name, bracket, arguments = self.load_call.partition("(")
            target, loaded = f"{self.package}:{name}", f"{bracket}{arguments}.{self.function}"
        keywords = self.keywords | ({"causal": True} if is_causal else {})
        return target, keywords, {"named": self.gates, "loaded": loaded}

    @property
    def package(self) -> str:
        """The import name of the package that it needs."""
        return "kernels" if self.is_on_hub else "fla"

    @property
    def project(self) -> str:
        """The name under which pip installs it."""
        return "kernels" if self.is_on_hub else "flash-linear-attention"


def _fla(form: str, kind: str, what: str, called: str, *gates: str, **more: Any) -> Kernel:
    prefix = "fused_recurrent" if form == "recurrent" else form
    memory = {"chunk": "nd + nd²/h", "parallel": "nd", "recurrent": "nd + d²/h"}[form]
    told = {"reference": _RECURRENCE, "memory": memory, "gates": gates, **more}
    return Kernel(f"fla.ops.{kind}", f"{prefix}_{kind}", f"{what}, {form}, by flash-linear-attention", called, **told)


_SUMS = "linear attention without feature map and division"
_RETENTION = "retention, a fixed decay for each head"
_BY_HEAD = "linear attention with a gate for each head"
_BY_CHANNEL = "linear attention with a gate for each channel"
_DELTA = "the delta rule"
_GATED_DELTA = "the delta rule with a gate for each head"
_PLAIN = {"keywords": {"normalize": False}}
_DECAYS = {"reference": f"{_FUNCTIONS}:retention"}
_UNIT = {"reference": f"{_FUNCTIONS}:recurrence", "keywords": {"use_qk_l2norm_in_kernel": True}}

# Dao 2023, "FlashAttention-2", for Ampere GPUs and later. Shah et al. 2024, "FlashAttention-3", for Hopper GPUs.
# The kernels of flash-linear-attention are written in Triton, which supports compute capability 8.0 and later.
KERNELS = {
    "sdpa.hub.flash2": Kernel("kernels-community/flash-attn2", "flash_attn_func", "flash-attn2 of the kernels package"),
    "sdpa.hub.flash3": Kernel(
        "kernels-community/flash-attn3", "flash_attn_func", "flash-attn3 of the kernels package", capability=(9, 0)
    ),
    "fla.linear_attn.chunk": _fla("chunk", "linear_attn", _SUMS, "ungated", **_PLAIN),
    "fla.linear_attn.recurrent": _fla("recurrent", "linear_attn", _SUMS, "ungated", **_PLAIN),
    "fla.retention.chunk": _fla("chunk", "retention", _RETENTION, "ungated", **_DECAYS),
    "fla.retention.parallel": _fla("parallel", "retention", _RETENTION, "ungated", **_DECAYS),
    "fla.retention.recurrent": _fla("recurrent", "retention", _RETENTION, "ungated", **_DECAYS),
    "fla.simple_gla.chunk": _fla("chunk", "simple_gla", _BY_HEAD, "head_gate", "g"),
    "fla.simple_gla.parallel": _fla("parallel", "simple_gla", _BY_HEAD, "head_gate", "g"),
    "fla.simple_gla.recurrent": _fla("recurrent", "simple_gla", _BY_HEAD, "head_gate", "g"),
    "fla.gla.chunk": _fla("chunk", "gla", _BY_CHANNEL, "channel_gate", "g"),
    "fla.gla.recurrent": _fla("recurrent", "gla", _BY_CHANNEL, "channel_gate", "gk"),
    "fla.delta_rule.chunk": _fla("chunk", "delta_rule", _DELTA, "delta", "beta", **_UNIT),
    "fla.delta_rule.recurrent": _fla("recurrent", "delta_rule", _DELTA, "delta", "beta", **_UNIT),
    "fla.gated_delta_rule.chunk": _fla("chunk", "gated_delta_rule", _GATED_DELTA, "gated_delta", "g", "beta", **_UNIT),
    "fla.gated_delta_rule.recurrent": _fla(
        "recurrent", "gated_delta_rule", _GATED_DELTA, "gated_delta", "g", "beta", **_UNIT, trains=False
    ),
}
