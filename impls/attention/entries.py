"""Registry entries of the attention layers. Importing this file does not import torch."""

from fractions import Fraction

from impls.registry_entry import Claims, Impl

_REFERENCE = "impls.attention.reference:AttentionReference"

# Claims that several layers share. A flash kernel computes the scores again in training: one product more.
_SOFTMAX: Claims = {"depth": "1", "path": "1", "kind": "self-attention"}
_STORED: Claims = {"work": "8nd² + 4n²d", "work_train": "24nd² + 12n²d", "work_decode": "8d² + 4nd"}
_FLASH: Claims = {"work": "8nd² + 4n²d", "work_train": "24nd² + 14n²d", "work_decode": "8d² + 4nd"}
_GROUPED: Claims = {
    "work": "4nd² + 4nd²g/h + 4n²d",
    "work_train": "12nd² + 12nd²g/h + 14n²d",
    "work_decode": "4d² + 4d²g/h + 4nd",
    "memory": "nd",
}

# Each layer builds on the one before.
ATTENTION = (
    Impl(
        "attention.single",
        "impls.attention.plain:SingleHeadAttention",
        "impls.attention.reference:SingleHeadReference",
        "one head, n × n scores in memory",
        **_STORED,
        memory="n² + nd",
        **_SOFTMAX,
        has_heads=False,
    ),
    Impl(
        "attention.naive",
        "impls.attention.plain:NaiveAttention",
        _REFERENCE,
        "one head at a time, n × n scores in memory",
        **_STORED,
        memory="n² + nd",
        **_SOFTMAX,
    ),
    Impl(
        "attention.packed",
        "impls.attention.plain:PackedAttention",
        _REFERENCE,
        "all heads in one product, h scores in memory",
        **_STORED,
        memory="hn² + nd",
        **_SOFTMAX,
    ),
    Impl(
        "attention.chunked",
        "impls.attention.chunked:ChunkedAttention",
        _REFERENCE,
        "flash attention's algorithm in plain operations, no n × n scores",
        **_FLASH,
        axes={"block": ("B", 64)},
        # B × B scores of each head, and the sums of B queries.
        memory="nd + B²h + Bd",
        # The path is 1, but blocks of keys wait for one another.
        depth="n",
        path="1",
        kind="self-attention",
    ),
    Impl(
        "attention.fused",
        "impls.attention.fused:FusedAttention",
        _REFERENCE,
        "one kernel, flash or the like, no scores in memory",
        **_GROUPED,
        **_SOFTMAX,
    ),
    Impl(
        "attention.fused.flash",
        "impls.attention.fused:FlashAttention",
        _REFERENCE,
        "the flash kernel alone",
        **_GROUPED,
        **_SOFTMAX,
    ),
    Impl(
        "attention.fused.efficient",
        "impls.attention.fused:EfficientAttention",
        _REFERENCE,
        "the memory-efficient kernel alone (CUDA)",
        **_GROUPED,
        **_SOFTMAX,
    ),
    Impl(
        "attention.fused.cudnn",
        "impls.attention.fused:CudnnAttention",
        _REFERENCE,
        "cuDNN's kernel alone (CUDA)",
        **_GROUPED,
        **_SOFTMAX,
    ),
    Impl(
        "attention.fused.math",
        "impls.attention.fused:MathAttention",
        _REFERENCE,
        "what the fused ones fall back to: plain products, h scores in memory",
        work="4nd² + 4nd²g/h + 4n²d",
        work_train="12nd² + 12nd²g/h + 12n²d",
        work_decode="4d² + 4d²g/h + 4nd",
        memory="hn² + nd",
        **_SOFTMAX,
    ),
    Impl(
        "attention.module",
        "impls.attention.fused:ModuleAttention",
        _REFERENCE,
        "torch.nn.MultiheadAttention, not asked for its weights",
        work="8nd² + 4n²d",
        work_train="24nd² + 14n²d",
        # hn² or nd, depending on the kernel that torch chooses: see the docstring of `ModuleAttention`.
        memory="",
        **_SOFTMAX,
    ),
    Impl(
        "attention.module.weights",
        "impls.attention.fused:ModuleAttentionWithWeights",
        _REFERENCE,
        "torch.nn.MultiheadAttention, asked for its weights as by default",
        work="8nd² + 4n²d",
        work_train="24nd² + 12n²d",
        memory="hn² + nd",
        **_SOFTMAX,
    ),
    Impl(
        "attention.gqa",
        "impls.attention.fused:GroupedQueryAttention",
        "impls.attention.reference:GroupedQueryReference",
        "4 queries share a key and a value: a quarter of the cache",
        **_GROUPED,
        **_SOFTMAX,
        own_sizes={"num_kv_heads": Fraction(1, 4)},
    ),
    Impl(
        "attention.window",
        "impls.attention.window:WindowAttention",
        "impls.attention.reference:WindowReference",
        "each token sees those within 32 of it",
        # Blocks of r queries against 3r keys. A decoded token attends to itself and the r tokens before it.
        work="8nd² + 12rnd",
        work_train="24nd² + 36rnd",
        work_decode="8d² + 4rd + 4d",
        axes={"reach": ("r", 32)},
        # r scores for each head and token, and r more keys beyond each end.
        memory="rhn + nd + rd",
        depth="1",
        # A path exists only in a stack n/r layers deep, not in one layer.
        path="",
        kind="restricted",
        options={"reach": 32},
        reference_options={"reach": 32},
    ),
)


# Layers whose first call compiles.
COMPILED_ATTENTION = (
    Impl(
        "attention.compiled",
        "impls.attention.compiled:CompiledAttention",
        _REFERENCE,
        "packed, as one program that torch compiles",
        **_STORED,
        **_SOFTMAX,
        compiled=True,
    ),
    Impl(
        "attention.flex",
        "impls.attention.compiled:FlexAttention",
        _REFERENCE,
        "FlexAttention: a fused kernel compiled for its mask",
        work="8nd² + 4n²d",
        work_train="24nd² + 18n²d",  # the backward pass has 7 products: see harness/core/trial/counts/flops.py
        memory="nd",
        **_SOFTMAX,
        compiled=True,
    ),
)


# Decoding without a cache. The entry is separate from `ATTENTION` because no block is built around it. Except in
# decoding, such a block would equal that of `attention.fused`, and a model's block decodes with a cache.
UNCACHED = (
    Impl(
        "attention.uncached",
        "impls.attention.fused:UncachedAttention",
        "impls.attention.reference:AttentionReference",
        "fused, decoding by a pass over all tokens so far",
        work="4nd² + 4nd²g/h + 4n²d",
        work_train="12nd² + 12nd²g/h + 14n²d",
        # Without a mask, as in every claim. A step is a pass under a causal mask, which leaves 8nd² + 2n²d + 2nd.
        work_decode="4nd² + 4nd²g/h + 4n²d",
        memory="nd",
        depth="1",
        path="1",
        # No row of table 1: it would duplicate one, and inference in that table assumes a cache.
        kind="",
    ),
)


# No blocks are built around these. Such blocks would differ from those around other layers only in the attention.
SPARSE_AND_LATENT = (
    Impl(
        "attention.window.global",
        "impls.attention.global_window:GlobalWindowAttention",
        "impls.attention.global_window:GlobalWindowReference",
        "a window of 32, and 16 tokens that see, and are seen by, all",
        # 3r + k keys for each query, and k more queries over all keys. A token is decoded from r + 1 + k keys.
        work="8nd² + 12rnd + 8knd",
        work_train="24nd² + 36rnd + 24knd",
        work_decode="8d² + 4rd + 4kd + 4d",
        axes={"reach": ("r", 32), "global_tokens": ("k", 16)},
        # r + k scores for each head and token, and k keys more for each block of r queries.
        memory="rhn + khn + nd + knd/r + rd + kd",
        depth="1",
        kind="restricted",
    ),
    Impl(
        "attention.block_sparse",
        "impls.attention.block_sparse:BlockSparseAttention",
        "impls.attention.block_sparse:BlockSparseReference",
        "blocks of 32, each sees 6 of them: Big Bird's",
        # 6B keys for each query, and B more queries over all keys.
        work="8nd² + 28Bnd",
        work_train="24nd² + 84Bnd",
        work_decode="8d² + 24Bd",
        axes={"block": ("B", 32)},
        memory="Bhn + nd + Bd",
        depth="1",
        kind="restricted",
    ),
    Impl(
        "attention.latent",
        "impls.attention.latent:LatentAttention",
        "impls.attention.latent:LatentReference",
        "DeepSeek-V2's: a cache of 144 words a token for all heads",
        # Latents of l and p rotated channels. Decoding has 2 · ((l + p) + l) for each token and head.
        work="4nd² + 2phnd + 6lnd + 2pnd + 4n²d + 2phn²",
        work_train="12nd² + 6phnd + 18lnd + 6pnd + 12n²d + 6phn²",
        work_decode="4d² + 2phd + 6ld + 2pd + 4lhn + 2phn",
        axes={"latent": ("l", 128), "rope": ("p", 16)},
        memory="hn² + nd + phn + ln",
        depth="1",
        path="1",
        kind="self-attention",
    ),
)


_LINEAR_REFERENCE = "impls.attention.linear:LinearAttentionReference"
_CAUSAL = "impls.attention.linear:CausalLinearAttentionReference"

# Each form of linear attention builds on the one before.
LINEAR = (
    Impl(
        "attention.linear.parallel",
        "impls.attention.linear:ParallelLinearAttention",
        _LINEAR_REFERENCE,
        "linear attention, all tokens at once",
        # Without a mask. Under a causal mask, the work is that of attention.packed.
        work="8nd² + 4nd²/h",
        work_train="24nd² + 12nd²/h",
        work_decode="8d² + 4d²/h",
        memory="nd + d²/h",
        depth="1",
        path="1",
    ),
    Impl(
        "attention.linear.recurrent",
        "impls.attention.linear:RecurrentLinearAttention",
        _CAUSAL,
        "the same, causal, as a loop over tokens",
        work="8nd² + 4nd²/h",
        # The backward pass recomputes the states instead of keeping them: 6 products of 2nd²/h instead of 4.
        work_train="24nd² + 16nd²/h",
        work_decode="8d² + 4d²/h",
        memory="nd + d²/h",
        depth="n",
        path="n",
    ),
    Impl(
        "attention.linear.chunked",
        "impls.attention.linear:ChunkedLinearAttention",
        _CAUSAL,
        "the same, causal, in chunks of 64",
        # No claim for `work`: it is 8nd² + 4cnd + 4nd²/h if n is a multiple of c, and else no polynomial in n.
        work_decode="8d² + 4d²/h",
        axes={"chunk": ("c", 64)},
        memory="nd + chn + nd²/h/c + d²/h",
        depth="1",
        path="1",
    ),
)
