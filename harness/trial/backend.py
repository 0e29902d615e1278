"""Which kernel really ran, read from the operations that were dispatched."""

from collections.abc import Iterable

# The operation that a backend leaves in the trace; the first that is found names it.
_TRACES = (
    ("_scaled_dot_product_flash_attention", "flash"),
    ("_scaled_dot_product_efficient_attention", "efficient"),
    ("_scaled_dot_product_cudnn_attention", "cudnn"),
    ("_scaled_dot_product_attention_math", "math"),
    ("mkldnn_rnn_layer", "onednn"),
    ("_cudnn_rnn", "cudnn"),
    ("rnn_tanh", "aten loop"),
)


def backend(operations: Iterable[str]) -> str:
    """The backend's name, `aten` where only plain operations ran."""
    seen = set(operations)
    return next((name for trace, name in _TRACES if any(trace in operation for operation in seen)), "aten")
