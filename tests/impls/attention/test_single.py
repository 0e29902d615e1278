import torch

from impls.attention.plain import NaiveAttention, SingleHeadAttention


def test_it_is_equation_1() -> None:
    layer = SingleHeadAttention(12).double()
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    q, k, v = (x @ layer.in_proj_weight.t() + layer.in_proj_bias).chunk(3, dim=-1)
    weights = torch.softmax(torch.einsum("bid,bjd->bij", q, k) / 12**0.5, dim=-1)
    torch.testing.assert_close(layer(x), layer.out_proj(weights @ v))


def test_any_number_of_heads_is_one_head() -> None:
    layer, naive = SingleHeadAttention(12, num_heads=3), NaiveAttention(12, num_heads=1)
    naive.load_state_dict(layer.state_dict())
    x = torch.randn(2, 7, 12)
    torch.testing.assert_close(layer(x), naive(x))
    assert layer.num_heads == 1
