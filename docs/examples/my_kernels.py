from torch import nn


def f(q, k, v):
    """Your kernel: (b, h, n, head_dim) each."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return scores.softmax(-1) @ v


class MyAttention(nn.Module):
    input_width = 3
    reference = "sdpa.naive"
    claims = {"work": "4n²d", "memory": "hn² + nd", "depth": "1"}

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads

    def forward(self, qkv):
        b, n, _ = qkv.shape
        q, k, v = qkv.view(b, n, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        return f(q, k, v).transpose(1, 2).reshape(b, n, -1)
