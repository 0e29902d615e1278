"""Latent attention: its cache, and a decoding step that never computes a key."""

import torch

from impls.attention.latent import LatentAttention, rotated


def test_a_token_keeps_its_latent_and_its_shared_key_whatever_the_width_and_heads() -> None:
    for d, h in ((32, 4), (256, 8)):
        cache = LatentAttention(d, h, latent=24, rope=8).start(2, 10)
        assert cache.tokens.shape == (2, 10, 24 + 8)


def test_scores_depend_on_the_distance_of_two_tokens_and_not_on_their_places() -> None:
    q, k = torch.randn(2, 1, 8, dtype=torch.float64).unbind(0)
    scores = [rotated(q, place + 3) @ rotated(k, place).mT for place in (0, 1, 50)]
    torch.testing.assert_close(scores[1], scores[0])
    torch.testing.assert_close(scores[2], scores[0])


def test_a_step_multiplies_one_query_and_not_the_latents_by_the_matrices_of_keys_and_values() -> None:
    layer = LatentAttention(16, 2, latent=8, rope=4).double()
    x = torch.randn(1, 12, 16, dtype=torch.float64)
    state = layer.prefill(x[:, :11], layer.start(1, 12))
    seen = []
    handle = layer.up_proj.register_forward_hook(lambda *called: seen.append(called))
    y, _ = layer.step(x[:, 11], state)
    assert not seen
    causal = torch.ones(1, 1, 12, 12, dtype=torch.bool).tril()
    torch.testing.assert_close(y, layer(x, attn_mask=causal)[:, 11])
    assert len(seen) == 1
    handle.remove()
