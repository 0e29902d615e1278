"""A layer and planted changes to it. Each is the text of a file that defines the same layer under the same name.

`rewrite` replaces one text by another, as a commit does.
"""

from pathlib import Path

MODULE = "layer_under_the_gate"
IMPL = f"{MODULE}:Layer"

# The layer has projections, attention in a fused kernel and causal sums over the tokens. Its memory is linear, its
# depth constant.
_LAYER = """\
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


class Layer(nn.Module):
    claims = {"memory": "nd", "depth": "1"}

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        y = self.attend(q, k, v).transpose(1, 2).reshape(b, n, d)
        return self.out(self.sums(y))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return scaled_dot_product_attention(q, k, v)

    def sums(self, y: Tensor) -> Tensor:
        return y.cumsum(dim=1)
"""


def _with(old: str, new: str) -> str:
    assert _LAYER.count(old) == 1
    return _LAYER.replace(old, new)


_ATTEND = "        return scaled_dot_product_attention(q, k, v)\n"
_SUMS = "        return y.cumsum(dim=1)\n"
_RETURN = "        return self.out(self.sums(y))\n"

UNCHANGED = _LAYER
QUADRATIC_MEMORY = _with(
    _ATTEND,
    "        nothing_hidden = q.new_zeros(*q.shape[:-1], k.shape[-2])\n"
    "        return scaled_dot_product_attention(q, k, v, nothing_hidden)\n",
)
ONE_MORE_PRODUCT = _with(_RETURN, "        return self.out(self.sums(y)) + self.out(x)\n")
PYTHON_LOOP = _with(
    _SUMS,
    "        total, sums = torch.zeros_like(y[:, 0]), []\n"
    "        for y_t in y.unbind(dim=1):\n"
    "            total = total + y_t\n"
    "            sums.append(total)\n"
    "        return torch.stack(sums, dim=1)\n",
)
LOST_KERNEL = _with(_ATTEND, "        with sdpa_kernel(SDPBackend.MATH):\n    " + _ATTEND)
RAISES = _with(_SUMS, '        raise RuntimeError("no such luck")\n')
WRONG = _with(_SUMS, '        return y * float("nan")\n')
GONE = "Layer = None\n"
CANNOT_BE_IMPORTED = "import no_such_module_anywhere\n"
LESS_WORK = _with(_RETURN, "        return self.sums(y)\n")

# Regressions by their name in the table. Each makes the layer worse.
PLANTED = {
    "n² memory where it was linear": QUADRATIC_MEMORY,
    "one more matrix product": ONE_MORE_PRODUCT,
    "a per-step Python loop": PYTHON_LOOP,
    "a lost fused kernel (fallback to math)": LOST_KERNEL,
}


def rewrite(directory: Path, text: str) -> None:
    """Write the layer's file into a directory on `sys.path`, and remove compiled code of the former text."""
    for compiled in directory.glob(f"__pycache__/{MODULE}.*"):
        compiled.unlink()
    (directory / f"{MODULE}.py").write_text(text, encoding="utf-8")
