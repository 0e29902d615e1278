"""Kernels of packages on the index as functions, each in ten lines or fewer. Nothing of the harness is imported."""

from functools import partial

import torch
from linear_attention_transformer.linear_attention_transformer import causal_linear_attn, linear_attn
from local_attention import LocalAttention
from mambapy.pscan import PScan
from performer_pytorch.performer_pytorch import gaussian_orthogonal_random_matrix, linear_attention, softmax_kernel


def softmax(q, k, v, hidden=None):
    """Softmax attention but for the `hidden` pairs."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return (scores if hidden is None else scores.masked_fill(hidden, -torch.inf)).softmax(-1) @ v


def banded(q, k, v):
    """Over the tokens within 32."""
    place = torch.arange(q.shape[2])
    return softmax(q, k, v, (place[:, None] - place).abs() > 32)


local = LocalAttention(32, look_forward=1, exact_windowsize=True, autopad=True)
local.claims = {"work": "4n·96·d", "work_train": "12n·96·d", "depth": "1"}
local.reference = banded


def efficient(q, k, v):
    """Shen et al. 2018, "Efficient attention": softmax over the features of a query, and over the tokens of a key."""
    return q.softmax(-1) @ (k.softmax(-2).transpose(-2, -1) @ v) / q.shape[-1] ** 0.5


linear = partial(linear_attn)
linear.claims = {"work": "4nd²/h", "work_train": "12nd²/h", "memory": "nd + d²/h", "depth": "1"}
linear.reference = efficient


def kernel_sums(q, k, v):
    """Katharopoulos et al. 2020, equation 8: weights q·k of positive features, over the tokens so far."""
    scores = (q.softmax(-1) @ k.exp().transpose(-2, -1)).tril()
    return scores / scores.sum(-1, keepdim=True) @ v


causal_linear = partial(causal_linear_attn)
causal_linear.axes = {"bucket_size": ("c", 1)}
causal_linear.causal, causal_linear.reference = True, kernel_sums
causal_linear.claims = {"work": "2nd²/h + 2nd", "work_train": "6nd²/h + 6nd", "depth": "1"}


def performer(q, k, v, projection_matrix=None, features=64):
    q = softmax_kernel(q, projection_matrix=projection_matrix, is_query=True)
    return linear_attention(q, softmax_kernel(k, projection_matrix=projection_matrix, is_query=False), v)


def draw_features(q, k, v, features=64):
    return {"projection_matrix": gaussian_orthogonal_random_matrix(features, q.shape[-1])}


# The estimate is good for short queries and keys: its variance grows with exp(|q + k|²).
short = {"shape": "b h n D", "fill": lambda *shape: torch.randn(*shape) / 2}
performer.inputs = {"q": short, "k": short, "v": "b h n D"}
performer.prepare, performer.axes = draw_features, {"features": ("r", 64)}
performer.reference, performer.allowed_error = softmax, 0.5
performer.claims = {"work": "8nrd + 2nrh", "depth": "1"}


def recurrence(a, x):
    """h_t = a_t h_{t-1} + x_t."""
    h, states = torch.zeros_like(x[:, 0]), []
    for a_t, x_t in zip(a.unbind(1), x.unbind(1), strict=True):
        h = a_t * h + x_t
        states.append(h)
    return torch.stack(states, 1)


scan = partial(PScan.apply)
scan.inputs = {"a": {"shape": "b n d s", "fill": torch.rand}, "x": "b n d s"}
scan.axes, scan.causal, scan.reference = {"d_state": ("s", 16)}, True, recurrence
scan.claims = {"depth": "log n"}
