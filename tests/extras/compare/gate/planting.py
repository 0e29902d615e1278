"""Which layers are called how often, so that one call more is a known share more work. Every trial imports it."""

IMPLS = ("rnn.torch", "attention.naive", "attention.packed", "attention.fused")
# By share, how many calls it is a share of.
CALLS = {0.02: 50, 0.03: 33, 0.05: 20, 0.10: 20, 0.20: 20}


def class_name(impl: str, times: int) -> str:
    """`attention.fused`, called 21 times: `AttentionFused21`."""
    return f"{impl.title().replace('.', '')}{times}"
