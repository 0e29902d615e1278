def my_attention(q, k, v):
    """Your kernel: (b, h, n, head_dim) each."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return scores.softmax(-1) @ v


my_attention.claims = {"work": "4n²d", "memory": "hn² + nd", "depth": "1"}
