"""References of the layers with a matrix state, one token and one formula at a time: each layer is checked against one.

Nothing is in log space or in chunks. Written for float64 and small n, not for speed.
"""

import torch
from torch import Tensor

from impls.linear.gated_delta import RecurrentGatedDelta
from impls.linear.mlstm import RecurrentMLSTM
from impls.linear.rwkv7 import RecurrentRWKV7
from impls.linear.ssd import RecurrentSSD


class SSDReference(RecurrentSSD):
    """Reference of Mamba-2's layer: (b, n, d) -> (b, n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        projected = torch.einsum("ed,bnd->bne", self.in_proj.weight, x)
        inner, b, c, step = projected.split([x.shape[-1], self.state, self.state, self.num_heads], dim=-1)
        inner = inner.unflatten(-1, (self.num_heads, -1))  # (b, n, h, head_dim)
        step = torch.log(1 + torch.exp(step + self.step_bias))  # (b, n, h)
        h = x.new_zeros(x.shape[0], self.num_heads, self.state, self.head_dim)
        outputs = []
        for t in range(x.shape[1]):
            decay = torch.exp(-step[:, t] * torch.exp(self.log_rate))  # (b, h)
            written = torch.einsum("bs,bh,bhe->bhse", b[:, t], step[:, t], inner[:, t])
            h = decay[:, :, None, None] * h + written
            read = torch.einsum("bs,bhse->bhe", c[:, t], h) + self.skip[:, None] * inner[:, t]
            outputs.append(read.flatten(1))
        return torch.einsum("ed,bnd->bne", self.out_proj.weight, torch.stack(outputs, dim=1))


class GatedDeltaReference(RecurrentGatedDelta):
    """Reference of gated DeltaNet: (b, n, d) -> (b, n, d). The transition matrix is written out.

    S_t = α_t S_{t-1} (I − β_t k_t k_tᵀ) + β_t v_t k_tᵀ,   y_t = S_t q_t
    """

    def forward(self, x: Tensor) -> Tensor:
        projected = torch.einsum("ed,bnd->bne", self.in_proj.weight, x)
        q, k, v = projected.unflatten(-1, (3, self.num_heads, self.head_dim)).unbind(2)  # (b, n, h, head_dim) each
        q, k = (each / torch.einsum("bnhe,bnhe->bnh", each, each)[..., None] ** 0.5 for each in (q, k))
        gates = torch.einsum("ed,bnd->bne", self.gates.weight, x) + self.gates.bias
        forget, write = gates.chunk(2, dim=-1)  # (b, n, h) each
        alpha = torch.exp(-torch.exp(self.log_rate) * torch.log(1 + torch.exp(forget)))
        beta = 1 / (1 + torch.exp(-write))
        s = x.new_zeros(x.shape[0], self.num_heads, self.head_dim, self.head_dim)
        outputs = []
        for t in range(x.shape[1]):
            beta_t = beta[:, t, :, None, None]
            kept = torch.eye(self.head_dim).to(x) - beta_t * torch.einsum("bhe,bhf->bhef", k[:, t], k[:, t])
            written = beta_t * torch.einsum("bhe,bhf->bhef", v[:, t], k[:, t])
            s = alpha[:, t, :, None, None] * torch.einsum("bhef,bhfg->bheg", s, kept) + written
            outputs.append(torch.einsum("bhef,bhf->bhe", s, q[:, t]).flatten(1))
        return torch.einsum("ed,bnd->bne", self.out_proj.weight, torch.stack(outputs, dim=1))


class MLSTMReference(RecurrentMLSTM):
    """Reference of mLSTM: (b, n, d) -> (b, n, d). The memory is not divided by anything."""

    def forward(self, x: Tensor) -> Tensor:
        projected = torch.einsum("ed,bnd->bne", self.in_proj.weight, x) + self.in_proj.bias
        q, k, v, output = projected.unflatten(-1, (4, self.num_heads, self.head_dim)).unbind(2)  # (b, n, h, head_dim)
        gates = torch.einsum("ed,bnd->bne", self.gates.weight, x) + self.gates.bias
        of_input, forget = gates.chunk(2, dim=-1)  # (b, n, h) each
        c = x.new_zeros(x.shape[0], self.num_heads, self.head_dim, self.head_dim)
        z = c[..., 0]  # (b, h, head_dim)
        outputs = []
        for t in range(x.shape[1]):
            i, f = torch.exp(of_input[:, t, :, None]), 1 / (1 + torch.exp(-forget[:, t, :, None]))  # (b, h, 1) each
            k_t = k[:, t] / self.head_dim**0.5
            c = f[..., None] * c + i[..., None] * torch.einsum("bhe,bhf->bhef", v[:, t], k_t)
            z = f * z + i * k_t
            total = torch.einsum("bhe,bhe->bh", z, q[:, t])[..., None].abs()
            read = torch.einsum("bhef,bhf->bhe", c, q[:, t]) / torch.where(total > 1, total, 1.0)
            outputs.append((read / (1 + torch.exp(-output[:, t]))).flatten(1))
        return torch.einsum("ed,bnd->bne", self.out_proj.weight, torch.stack(outputs, dim=1)) + self.out_proj.bias


def _sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


class RWKV7Reference(RecurrentRWKV7):
    """Reference of RWKV-7's time mixing: (b, n, d) -> (b, n, d). The transition matrix is written out.

    S_t = S_{t-1} (diag(w_t) − κ_t (a_t ⊙ κ_t)ᵀ) + v_t k_tᵀ,   y_t = S_t r_t
    """

    def forward(self, x: Tensor) -> Tensor:
        s = x.new_zeros(x.shape[0], self.num_heads, self.head_dim, self.head_dim)
        last, outputs = torch.zeros_like(x[:, 0]), []
        for x_t in x.unbind(1):
            r, k, v, w, a, g = ((1 - share) * x_t + share * last for share in self.shift)  # (b, d) each
            r, k, v = r @ self.receptance.weight.T, k @ self.key.weight.T, v @ self.value.weight.T
            w = torch.tanh(w @ self.decay.down.weight.T) @ self.decay.up.weight.T + self.decay.up.bias
            w = torch.exp(-_sigmoid(w) / torch.e**0.5)
            a = _sigmoid(a @ self.rate.down.weight.T @ self.rate.up.weight.T + self.rate.up.bias)
            g = _sigmoid(g @ self.gate.down.weight.T) @ self.gate.up.weight.T
            removed = (k * self.removal).unflatten(-1, (self.num_heads, -1))  # (b, h, head_dim)
            removed = removed / torch.einsum("bhe,bhe->bh", removed, removed)[..., None] ** 0.5
            k = k * (self.replacement * a + 1 - self.replacement)
            by_head = (self.num_heads, self.head_dim)
            r, k, v, w, a, rho = (each.unflatten(-1, by_head) for each in (r, k, v, w, a, self.bonus))
            transition = torch.diag_embed(w) - torch.einsum("bhe,bhf->bhef", removed, a * removed)
            s = torch.einsum("bhde,bhef->bhdf", s, transition) + torch.einsum("bhd,bhe->bhde", v, k)
            y = torch.einsum("bhde,bhe->bhd", s, r)
            y = y - y.mean(-1, keepdim=True)
            y = (y / ((y * y).mean(-1, keepdim=True) + 64e-5) ** 0.5).flatten(1) * self.norm_weight + self.norm_bias
            y = y + (torch.einsum("bhe,he,bhe->bh", r, rho, k)[..., None] * v).flatten(1)
            outputs.append((g * y) @ self.out_proj.weight.T)
            last = x_t
        return torch.stack(outputs, dim=1)
