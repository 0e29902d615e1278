"""Which kernel really ran, read from the operations of a call, those inside composite ones included."""

from collections.abc import Iterable

# The operation that a backend leaves in the trace; the first that is found names it. `math` stands first: a layer
# which falls back once in two calls is no fast one. Composite operations, which are there whatever they
# call, stand last.
_TRACES = (
    ("_scaled_dot_product_attention_math", "math"),
    ("_scaled_dot_product_flash_attention", "flash"),
    ("_scaled_dot_product_efficient_attention", "efficient"),
    ("_scaled_dot_product_cudnn_attention", "cudnn"),
    ("_flash_attention_forward", "flash"),
    ("_efficient_attention_forward", "efficient"),
    ("_native_multi_head_attention", "math"),
    ("mkldnn_rnn_layer", "oneDNN"),
    ("_cudnn_rnn", "cudnn"),
    ("aten::rnn_tanh", "ATen loop"),
    ("aten::rnn_relu", "ATen loop"),
    ("aten::gru", "ATen loop"),
    ("aten::lstm", "ATen loop"),
)

NAMES = ("flash", "math", "efficient", "cudnn", "oneDNN", "ATen loop", "ATen")


def backend(operations: Iterable[str]) -> str:
    """One of `NAMES`; `ATen` where only plain operations ran, `math` also where the evaluation path of
    `nn.MultiheadAttention` materialised the scores.
    """
    seen = set(operations)
    return next((name for trace, name in _TRACES if any(trace in operation for operation in seen)), "ATen")
