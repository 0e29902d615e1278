"""Layers of packages on the index, each in ten lines or fewer. Nothing of the harness is imported."""

from mambapy.mamba import MambaBlock, MambaConfig
from nystrom_attention import NystromAttention


def softmax(q, k, v, num_heads):
    """Softmax attention over heads of (b, n, d) each."""
    q, k, v = (one.unflatten(-1, (num_heads, -1)).transpose(1, 2) for one in (q, k, v))
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class Nystrom(NystromAttention):
    family, axes = "attention", {"landmarks": ("l", 64)}
    reference, allowed_error = "layers:Softmax", 0.5
    # The pseudo-inverse takes six iterations of four products of l × l.
    claims = {"work": "8nd² + 8nld + 2nl²h + 2l²d + 48l³h", "depth": "1"}

    def __init__(self, d_model, num_heads, landmarks=64):
        super().__init__(d_model, d_model // num_heads, num_heads, num_landmarks=landmarks, residual=False)


class Softmax(Nystrom):
    """What `Nystrom` approximates, with the same weights."""

    def forward(self, x):
        return self.to_out(softmax(*self.to_qkv(x).chunk(3, dim=-1), self.heads))


class Mamba(MambaBlock):
    """A state of 16, and a rank of 4."""

    family, causal, reference = "rnn", True, "layers:Sequential"
    claims = {"work": "12nd² + 240nd + 48d", "depth": "log n", "work_decode": "12d² + 336d"}

    def __init__(self, d_model, pscan=True):
        super().__init__(MambaConfig(d_model, n_layers=1, dt_rank=4, pscan=pscan))

    def start(self, batch_size, seq_len):
        return None, self.out_proj.weight.new_zeros(batch_size, self.config.d_inner, self.config.d_conv - 1)


class Sequential(Mamba):
    """The recurrence, a token at a time."""

    def __init__(self, d_model):
        super().__init__(d_model, pscan=False)
