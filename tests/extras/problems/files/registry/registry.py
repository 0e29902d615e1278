"""A registry of operations in the shape of flash-linear-attention's, with operations of our own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def per_width(B: int, T: int, H: int, D: int, **_: int) -> tuple[int, ...]:
    return (B, T, H, D)


def per_head(B: int, T: int, H: int, D: int, **_: int) -> tuple[int, ...]:
    return (B, T, H)


def joined(B: int, T: int, H: int, D: int, **_: int) -> tuple[int, ...]:
    return (B, T, H * D)


def stacked(B: int, T: int, H: int, D: int, L: int) -> tuple[int, ...]:
    return (L, B, T, H * D)


@dataclass
class TensorSpec:
    shape_fn: Callable[..., tuple[int, ...]]
    transform: Callable[[Tensor], Tensor] | None = None


@dataclass
class OpConfig:
    name: str
    import_path: str
    inputs: dict[str, TensorSpec]
    func_name: str | None = None
    extra_kwargs: dict[str, Any] = field(default_factory=dict)
    output_is_tuple: bool = True
    post_init: Callable[..., None] | None = None
    dim_constraints: dict[str, list[int]] | None = None
    default_shapes: dict[str, dict[str, int]] | None = None


REGISTERED: dict[str, OpConfig] = {}
SHAPE_CONFIGS = {"small": {"B": 2, "T": 16, "H": 2, "D": 8}, "large": {"B": 1, "T": 1024, "H": 8, "D": 64}}
STACKS = {"three": {"L": 3, "B": 2, "T": 8, "H": 1, "D": 4}}


def register_op(config: OpConfig) -> None:
    REGISTERED[config.name] = config


def get_op(name: str) -> OpConfig:
    return REGISTERED[name]


def generate_inputs(
    config: OpConfig,
    B: int,
    T: int,
    H: int,
    D: int,
    dtype: torch.dtype = torch.bfloat16,
    device: str | torch.device = "cuda",
    **more: int,
) -> dict[str, Any]:
    sizes = {"B": B, "T": T, "H": H, "D": D, **more}
    for name, allowed in (config.dim_constraints or {}).items():
        if sizes[name] not in allowed:
            raise ValueError(f"{config.name} takes {name} in {allowed}, and it is {sizes[name]}")
    inputs: dict[str, Any] = {}
    for name, spec in config.inputs.items():
        drawn = torch.randn(spec.shape_fn(**sizes), dtype=dtype, device=device)
        inputs[name] = (spec.transform(drawn) if spec.transform else drawn).requires_grad_(True)
    if config.post_init:
        config.post_init(inputs, **sizes)
    return inputs


def as_a_list(inputs: dict[str, Any], L: int, **_: int) -> None:
    inputs["sources"] = [source.detach().requires_grad_(True) for source in inputs["sources"]]
    inputs["number"] = L


qkv = {name: TensorSpec(per_width) for name in "qkv"}
decay, weight = TensorSpec(per_head, logsigmoid), TensorSpec(per_head, torch.sigmoid)

register_op(OpConfig(
    name="naive_decay",
    import_path="plain_operations",
    inputs={**qkv, "g": decay, "beta": weight},
    extra_kwargs={"scale": 0.5},
))  # fmt: skip
# The same inputs in another order.
register_op(OpConfig(
    name="chunk_decay",
    import_path="plain_operations",
    inputs={"beta": weight, "g": decay, **qkv},
    func_name="parallel_decay",
    extra_kwargs={"scale": 0.5},
    dim_constraints={"D": [8, 16]},
))  # fmt: skip
register_op(OpConfig(
    name="wrong_decay",
    import_path="plain_operations",
    inputs={**qkv, "g": decay, "beta": weight},
    func_name="parallel_decay",
    extra_kwargs={"scale": 0.6},
))  # fmt: skip
register_op(OpConfig(
    name="mean_of_sources",
    import_path="plain_operations",
    inputs={"query": TensorSpec(joined), "sources": TensorSpec(stacked)},
    output_is_tuple=False,
    post_init=as_a_list,
    default_shapes=STACKS,
))  # fmt: skip
register_op(OpConfig(
    name="squared",
    import_path="plain_operations",
    inputs={"q": TensorSpec(per_width)},
    output_is_tuple=False,
    default_shapes={"only": {"B": 1, "T": 4, "H": 2, "D": 4}},
))  # fmt: skip
register_op(OpConfig(name="elsewhere", import_path="no_such_package.ops", inputs=qkv))
