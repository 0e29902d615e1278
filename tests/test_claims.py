"""Claims are shown as they stand and evaluated exactly."""

from typing import ClassVar

import pytest

from harness.core.layers import layer_lookup
from harness.core.model.errors import UsageError
from harness.core.model.polynomial import parse
from harness.core.model.sweep_axes import Case
from impls.registry import IMPLS


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("n", 10),
        ("8nd² + 4n²d", 8 * 10 * 9 + 4 * 100 * 3),
        ("12nd² − 2d²", 12 * 10 * 9 - 2 * 9),
        ("12nd² - 2d²", 12 * 10 * 9 - 2 * 9),
        ("−n + hn³", -10 + 2 * 1000),
        ("4ndnd", 4 * 100 * 9),
        ("8n²/h", 400),
        ("4nd²/h²", 90),
        ("log n", 4),
        ("3n log n + 2", 122),
        ("2nd^2", 180),
        ("2*n*d**2", 180),
        ("2 n d²", 180),
        ("4n·192·d", 4 * 10 * 192 * 3),
        ("2·3n^2/h^2 + log n·d", 6 * 25 + 4 * 3),
    ],
)
def test_a_formula_is_evaluated_exactly(text: str, value: int) -> None:
    formula = parse(text)
    assert formula(n=10, d=3, h=2) == value
    assert str(formula) == text


def test_large_values_lose_no_digit() -> None:
    assert parse("8nd² + 1")(n=10**9 + 7, d=10**9 + 9) == 8 * (10**9 + 7) * (10**9 + 9) ** 2 + 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "n +",
        "+ ",
        "8nx²",
        "n^",
        "n^5",
        "2n 3d",
        "n*",
        "n²n³",
        "log nd",
        "__import__('os')",
        "1.5n",
        "n++d",
        "/h",
        "n/d",
        "log d",
    ],
)
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no sum of terms in n, d and h"):
        parse(text)


def test_what_is_no_whole_number_is_no_count() -> None:
    with pytest.raises(ValueError, match="n/h is no whole number at n = 3, d = 1, h = 2"):
        parse("n/h")(n=3, d=1, h=2)


def test_a_backward_pass_claims_what_training_does_less_a_forward_pass() -> None:
    of = layer_lookup.claims_of_impl("attention.fused")
    assert str(layer_lookup.work_of(of, "backward")) == "16nd² + 10n²d"
    assert str(layer_lookup.work_of(layer_lookup.claims_of_impl("rnn.elman"), "backward")) == "8nd² − 2d²"
    assert layer_lookup.work_of({"work": of["work"]}, "backward") is None
    assert layer_lookup.work_of(of, "decode") is of["work_decode"]
    assert str(of["work"] - of["work"]) == "0"


def test_every_registered_impl_claims_something() -> None:
    for name in IMPLS:
        assert layer_lookup.claims_of_impl(name)


def test_somebodys_own_layer_may_claim_what_it_likes_of_what_there_is() -> None:
    class Theirs:
        claims: ClassVar = {"work": "2nd²", "depth": "1"}

    found = layer_lookup.claims_of_class(Theirs)
    assert found["work"](n=3, d=2) == 24
    assert set(found) == {"work", "depth"}
    assert layer_lookup.claims_of_class(object) == {}


def test_an_unknown_claim_is_refused_with_the_nearest_one() -> None:
    class Theirs:
        claims: ClassVar = {"works": "nd"}

    with pytest.raises(UsageError, match="unknown claim 'works'; did you mean 'work'"):
        layer_lookup.claims_of_class(Theirs)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"work": "2nd^x"}, r"claims\['work'\]: claim '2nd\^x' is .*: '\^x' cannot be read; it takes whole numbers"),
        ({"work": "O(nd²)"}, r"claims\['work'\] is 'O\(nd²\)': an order is no count"),
        ({"wrok": "2nd²"}, "unknown claim 'wrok'; did you mean 'work'"),
    ],
)
def test_a_claim_that_cannot_be_read_is_named_with_its_part_and_what_is_taken(
    stated: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        layer_lookup.claims_of_class(type("Theirs", (), {"claims": stated}))


def test_claims_that_are_no_mapping_are_refused_with_an_example() -> None:
    with pytest.raises(UsageError, match=r"claims is '8nd²': it must be \{'work': '8nd² \+ 4n²d', …\}"):
        layer_lookup.claims_of_class(type("Theirs", (), {"claims": "8nd²"}))


def test_what_is_claimed_by_order_may_be_written_as_an_order() -> None:
    assert str(layer_lookup.claims_of_class(type("Theirs", (), {"claims": {"memory": "O(n d)"}}))["memory"]) == "n d"


def test_a_claim_in_key_value_heads_is_stated_for_the_case() -> None:
    def work(impl: str, g: int) -> str:
        return str(layer_lookup.claims_of_impl(impl, Case(impl, 64, 32, 8, num_kv_heads=g))["work"])

    assert work("attention.fused", 0) == "8nd² + 4n²d"
    assert work("attention.fused", 2) == "4nd² + 8nd²/h + 4n²d"
    assert work("attention.gqa", 0) == "5nd² + 4n²d"


def test_a_claim_of_a_users_layer_may_be_in_key_value_heads() -> None:
    theirs = type("Theirs", (), {"claims": {"work": "4nd² + 4nd²g/h + 4n²d"}})
    assert str(layer_lookup.claims_of_class(theirs)["work"]) == "8nd² + 4n²d"
    grouped = layer_lookup.claims_of_class(theirs, Case("m:Theirs", 64, 32, 8, num_kv_heads=4))
    assert grouped["work"](n=1, d=8, h=8) == 416


def test_a_users_layer_has_the_key_value_heads_of_its_constructor_by_default() -> None:
    class MultiQuery:
        claims: ClassVar = {"work": "4nd² + 4nd²g/h + 4n²d"}

        def __init__(self, d_model: int, num_heads: int, num_kv_heads: int = 1) -> None: ...

    assert str(layer_lookup.claims_of_class(MultiQuery)["work"]) == "4nd² + 4nd²/h + 4n²d"
    case = Case("m:MultiQuery", 64, 32, 8, num_kv_heads=2)
    assert str(layer_lookup.claims_of_class(MultiQuery, case)["work"]) == "4nd² + 8nd²/h + 4n²d"


def test_a_formula_of_a_test_may_be_in_key_value_heads() -> None:
    case = Case("attention.fused", 64, 32, 8, num_kv_heads=2)
    assert layer_lookup.formula_at("4nd² + 4nd²g/h", case)(n=1, d=8, h=8) == 256 + 64
    assert layer_lookup.formula_at("nd²g/h", Case("attention.gqa", 64, 32, 8))(n=1, d=8, h=8) == 16
