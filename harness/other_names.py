"""Other tools' words for ours.

Other tools' values are accepted. Their names of axes and keys are explained by messages.
"""

import re

# Accepted values by axis: `dtype=fp16` is `dtype=float16`.
VALUES = {
    "dtype": {
        **dict.fromkeys(("fp16", "half"), "float16"),
        **dict.fromkeys(("bf16",), "bfloat16"),
        **dict.fromkeys(("fp32", "single", "float"), "float32"),
        **dict.fromkeys(("fp64", "double"), "float64"),
    },
    "device": {"gpu": "cuda"},
}
_NAMES = {
    "impl": ("layer", "layers", "impls", "model"),
    "seq_len": ("length", "seqlen", "seq_length", "sequence_length", "context", "tokens"),
    "d_model": (
        *("dim", "width", "hidden", "hidden_size", "hidden_dim", "model_dim", "embed_dim", "embedding_dim", "n_embd"),
        *("features", "in_features", "out_features", "input_size"),
    ),
    "num_heads": ("heads", "head", "n_heads", "nheads", "nhead", "num_attention_heads"),
    "num_kv_heads": ("kv_heads", "n_kv_heads", "num_key_value_heads"),
    "batch_size": ("batch", "bs", "bsz"),
    "kv_len": ("seq_len_kv", "seqlen_kv", "kv_seq_len", "memory_len"),
    "head_dim": ("head_size", "headdim", "d_head"),
    "threads": ("cpus", "num_threads", "nthreads"),
    "memory_limit": ("max_memory", "mem"),
    "out": ("output", "output_dir", "outdir"),
    "points": ("zip",),
}
# Other tools' names of options that are a value of one of our axes.
OPTIONS = {**dict.fromkeys(("causal", "is_causal"), "mask=causal")}
# Our word for each word of other tools, for "did you mean".
MEANT = {word: name for name, words in _NAMES.items() for word in words}
MEANT |= {word: value for aliases in VALUES.values() for word, value in aliases.items()}

_WORD = re.compile(r"[A-Za-z]\w*")
_OF_POINT = re.compile(rf"\b({'|'.join(VALUES)})\s*:(\s*\w+)")
_SIZE = re.compile(r"(?<![\w.])(\d{1,12})([kKmM])(?!\w)")
_FACTORS = {"k": 2**10, "m": 2**20}


def our_values(axis: str, text: str) -> str:
    """The text of an option's value with our words for the values of `axis`."""
    aliases = VALUES[axis]
    return _WORD.sub(lambda word: aliases.get(word[0].lower(), word[0]), text)


def our_point_values(text: str) -> str:
    """The text of `points` with our words for values: `{dtype:fp16}` is `{dtype:float16}`."""
    return whole_numbers(_OF_POINT.sub(lambda found: f"{found[1]}:{our_values(found[1], found[2])}", text))


def whole_numbers(text: str) -> str:
    """The text with all digits of each number that ends in k or M: `4k` is 4096, `1M` is 1048576."""
    return _SIZE.sub(lambda found: str(int(found[1]) * _FACTORS[found[2].lower()]), text)
