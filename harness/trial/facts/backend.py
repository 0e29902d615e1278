"""Which kernel ran, judged from all operations of a call, including those inside composite operations."""

from collections.abc import Iterable

# The operation that each backend leaves in the trace. The first match decides. `math` comes first, because a layer that
# falls back in one of two calls is not fast. Composite operations come last, because they appear whatever they call.
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
    """Return one of `NAMES` for the operations of a call.

    It is `ATen` if only plain operations ran. It is `math` also if the evaluation path of `nn.MultiheadAttention` wrote
    the scores to memory.
    """
    seen = set(operations)
    return next((name for trace, name in _TRACES if any(trace in operation for operation in seen)), "ATen")
