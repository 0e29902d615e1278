"""Cost models in the letters of a layer's own axes, such as a window w."""

from itertools import product

import numpy as np
import pytest

from harness.core.model.errors import UsageError
from harness.core.model.polynomial import Polynomial, Term, constant, own_letter, parse
from harness.study.laws.fit_law import fit_law
from harness.study.laws.integer_laws import exact_law
from harness.study.laws.laws import Costs, Sizes, candidate_terms, exponent_of
from harness.study.laws.page_faults import memory_block_laws
from harness.study.laws.piecewise import predictor

NW, ND2, NWD = Term.of({"n": 1, "w": 1}), Term(n=1, d=2), Term.of({"n": 1, "d": 1, "w": 1})
WINDOWS = [(n, 64, 4, 1, (("w", w),)) for n, w in product((256, 512, 1024, 2048), (32, 64, 128))]


def test_terms_with_own_letters_are_read_written_and_evaluated() -> None:
    claim = parse("8nd² + 4nwd", {"w": own_letter("w")})
    assert claim == Polynomial({ND2: 8, NWD: 4})
    assert str(claim) == "8nd² + 4nwd"
    assert claim.value(10, 2, own=(("w", 3),)) == 8 * 10 * 4 + 4 * 10 * 3 * 2
    assert str(Term.of({"n": 1, "d": 2, "c": -1})) == "n·d²/c"


def test_a_claim_may_divide_by_an_own_letter() -> None:
    claim = parse("2nd²/c + 4ncd", {"c": own_letter("c")})
    assert claim.value(16, 2, own=(("c", 4),)) == 2 * 4 * 4 + 4 * 16 * 4 * 2
    assert parse("8n/g", {"g": constant(4)})(12, 1) == 24
    with pytest.raises(UsageError, match="cannot be read"):
        parse("8n/g", {"g": constant(0)})


@pytest.mark.parametrize("axis", ["n", "d", "w"])
def test_a_term_without_an_axis_keeps_the_other_letters(axis: str) -> None:
    without = Term.of({"n": 1, "log": 1, "d": 1, "w": 1}).without(axis)
    assert without.power(axis) == 0
    assert without.log == (axis != "n")
    assert all(without.power(other) == 1 for other in {"n", "d", "w"} - {axis})


@pytest.mark.parametrize(
    "law",
    [
        {ND2: 8, NWD: 4},  # a window on one side
        {NWD: 4, Term.of({"d": 1, "w": 2}): -2, Term.of({"d": 1, "w": 1}): 2},  # causal: the first tokens see less
        {Term.of({"n": 1, "d": 1, "w": 1}): 4, Term.of({"n": 1, "d": 2, "w": -1}): 2},  # chunks
    ],
)
def test_an_exact_law_has_the_letter_to_the_last_digit(law: dict[Term, int]) -> None:
    sizes = [(n, d, 1, 1, (("w", w),)) for n, d, w in product((64, 128, 256), (16, 32, 64), (2, 4, 8))]
    costs = [int(Polynomial(law).value(*size)) for size in sizes]
    found = exact_law(Sizes.of(sizes), costs)
    assert found is not None
    assert found.polynomial == Polynomial(law)
    assert found.determined


def test_a_noisy_time_is_fitted_in_the_letter_and_predicted_at_another_window() -> None:
    sizes, noise = Sizes.of(WINDOWS), np.random.default_rng(3).lognormal(0, 0.02, len(WINDOWS))
    costs = (2e-6 + 3e-9 * sizes.n * sizes.own["w"]) * noise
    law = fit_law(Costs(sizes, costs, np.full(len(costs), 0.02)), (Term(), Term(n=1), NW))
    assert NW in law.terms
    assert law.determined
    along = exponent_of(law, "w", *WINDOWS[-1])
    assert along is not None
    assert along.lo <= 1 <= along.hi
    found = predictor(Costs(sizes, costs, np.full(len(costs), 0.02)), law=law)(4096, 64, 4, 1, (("w", 256),))
    assert found.lo <= 2e-6 + 3e-9 * 4096 * 256 <= found.hi


def test_a_law_in_a_letter_alone_needs_three_of_its_values() -> None:
    sizes = Sizes.of([(512, 64, 4, 1, (("w", w),)) for w in (32, 64)])
    assert "w takes 2 values" in fit_law(Costs(sizes, np.array([1.0, 2.0]))).reason


def test_letters_that_do_not_vary_add_no_terms() -> None:
    assert all(not term.own for term in candidate_terms(("n", "d")))
    assert NWD in candidate_terms(("n", "d", "w"))
    assert NW in candidate_terms(("n", "w"))


def test_the_length_of_a_source_adds_its_projections_and_no_quotients() -> None:
    of_m = {term for term in candidate_terms(("n", "m", "d")) if term.own}
    assert {str(term) for term in of_m} == {"m", "n·m", "n·m·d", "m·d", "m·d²"}


def test_a_memory_block_grows_with_the_letter() -> None:
    blocks = [{int(4 * n * dict(own)["w"]): 2} for n, _, _, _, own in WINDOWS]
    found = memory_block_laws(Sizes.of(WINDOWS), blocks)
    assert found[0].size == NW
    assert found[0].bytes_each == 4
