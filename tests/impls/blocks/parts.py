"""Blocks of random weights, torch's own layers of the same weights, and tokens."""

import torch
from torch import Tensor, nn

D, H = 24, 4
NAIVE, FUSED = "impls.attention.plain:NaiveAttention", "impls.attention.fused:FusedAttention"
ATTENTIONS = (NAIVE, FUSED)
WINDOW = "impls.attention.window:WindowAttention"
# Those that no mask has to make causal.
CAUSAL = (
    "impls.attention.linear:RecurrentLinearAttention",
    "impls.attention.linear:ChunkedLinearAttention",
)


def drawn(block: nn.Module) -> nn.Module:
    """The block with random weights, norms included, in float64."""
    torch.manual_seed(0)
    block = block.double()
    for weight in block.parameters():
        nn.init.normal_(weight, std=0.3)
    return block


def tokens(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def with_names_of_torch(block: nn.Module) -> dict[str, Tensor]:
    names = {"self_attention.": "self_attn.", "cross_attention.": "multihead_attn.", "feed_forward.": ""}
    state = {}
    for name, value in block.state_dict().items():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        state[name] = value
    return state


def torchs(kind: type[nn.Module], block: nn.Module) -> nn.Module:
    theirs = kind(D, H, dim_feedforward=4 * D, dropout=0.0, batch_first=True, dtype=torch.float64)
    theirs.load_state_dict(with_names_of_torch(block))
    return theirs


def later(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def gradients(block: nn.Module, inputs: list[Tensor], **mask: object) -> dict[str, Tensor]:
    """Of every weight and input, and the output itself, by name."""
    leaves = dict(block.named_parameters()) | {f"input {i}": x.clone().requires_grad_() for i, x in enumerate(inputs)}
    y = block(*(leaves[f"input {i}"] for i in range(len(inputs))), **mask)
    found = torch.autograd.grad(y.sin().sum(), leaves.values())
    return dict(zip(leaves, found, strict=True)) | {"output": y}
