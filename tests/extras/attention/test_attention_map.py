"""The attention matrix of a layer, in a trial."""

from collections.abc import Iterator

import pytest
import torch

from harness.core.model.sweep_axes import Case
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.workload import Unsupported
from harness.extras.attention.trials import attention_map

WORDS = [11, 12, 13, 11, 14]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def seen(impl: str, heads: int = 4, mask: str = "none", seed: int = 0, words: list[int] = WORDS) -> dict:
    impl = impl if "." in impl else f"extras.attention.layers:{impl}"
    return attention_map(Case(impl, len(words), 16, heads, mask=mask), seed, words)


def weights(*args: object, **kwargs: object) -> torch.Tensor:
    return torch.tensor(seen(*args, **kwargs)["weights"])


@pytest.mark.parametrize("words", [[5], WORDS, list(range(40))])
@pytest.mark.parametrize("impl", ["attention.packed", "attention.naive", "attention.fused"])
def test_each_head_has_a_row_for_each_word_that_sums_to_1(impl: str, words: list[int]) -> None:
    found = seen(impl, words=words)
    matrix = torch.tensor(found["weights"])
    assert matrix.shape == (4, len(words), len(words))
    torch.testing.assert_close(matrix.sum(-1), torch.ones(4, len(words)))
    assert found["row_error"] < 1e-6


def test_under_a_causal_mask_no_word_looks_ahead() -> None:
    matrix = weights("attention.packed", mask="causal")
    assert not matrix.triu(1).any()
    torch.testing.assert_close(matrix.sum(-1), torch.ones(4, 5))
    assert weights("attention.packed").all()


def test_layers_of_the_same_mathematics_show_the_same() -> None:
    torch.testing.assert_close(weights("attention.naive"), weights("attention.fused"))


def test_the_seed_draws_the_layer_and_not_the_words() -> None:
    torch.testing.assert_close(weights("attention.packed"), weights("attention.packed"))
    assert not torch.allclose(weights("attention.packed", seed=1), weights("attention.packed"))
    torch.testing.assert_close(weights("Tells", seed=1), weights("Tells"))


def test_the_same_word_has_the_same_vector_wherever_it_stands() -> None:
    (matrix,) = weights("Tells")
    alike = matrix > matrix.mean(-1, keepdim=True)
    assert alike[0].tolist() == [True, False, False, True, False]
    assert alike[1].tolist() == [False, True, False, False, False]


def test_and_yet_another_position() -> None:
    first, *_, again, _ = weights("attention.packed")[0]
    assert not torch.allclose(first, again)


def test_somebodys_own_layer_is_looked_at_too() -> None:
    torch.testing.assert_close(weights("Uniform"), torch.full((4, 5, 5), 0.2))
    torch.testing.assert_close(weights("Uniform", mask="causal")[0, 1], torch.tensor([0.5, 0.5, 0, 0, 0]))


@pytest.mark.parametrize(
    ("impl", "reason"),
    [
        ("DoesNotSum", "do not sum to 1: one is off by 1.0e-01"),
        ("ForgetsTheHeads", r"shape \(1, 5, 5\), not \(1, heads, 5, 5\)"),
        ("ReturnsAList", "returned a list, not a tensor"),
        ("LooksAhead", "look ahead in spite of the mask"),
    ],
)
def test_what_is_no_attention_is_wrong_and_says_how(impl: str, reason: str) -> None:
    with pytest.raises(WrongResult, match=reason):
        seen(impl, mask="causal")


def test_what_has_no_attention_or_does_not_support_the_case_says_so() -> None:
    with pytest.raises(Unsupported, match="no method attention_weights"):
        seen("rnn.elman")
    with pytest.raises(Unsupported, match="an odd number of tokens"):
        seen("OnlyEven")
