"""The integers of a problem file, read and changed without running it."""

import ast
from pathlib import Path

import pytest

from harness.core.model.errors import UsageError
from harness.extras.problems.sizes import at_sizes, integers
from harness.extras.problems.translations import parsed
from harness.extras.problems.trials.probe import formula, letters_for


def tree(text: str) -> ast.Module:
    return ast.parse(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("n = 4", {"n": 4}),
        ("n: int = 4", {"n": 4}),
        ("b, n = 2, 4", {"b": 2, "n": 4}),
        ("n = 4 * 1024 + 1", {"n": 4097}),
        ("n = 4\nd = n * 2", {"n": 4}),  # d follows n
        ("n = 4\nn = 8", {}),  # which of both is the size?
        ("n = 4\nfor n in range(3): pass", {}),
        ("n = 4\ndef f(x):\n    n = x.shape[0]", {"n": 4}),  # another n
        ("n = 0\nm = -1\np = 0.5\nq = True\ns = 'x'", {}),
        ("a = b = 4", {}),
        ("n = 2 ** 10", {"n": 1024}),
        ("n = 4 // 0\nm = 8 / 2", {}),
        ("def get_inputs(n=4, p=0.5): pass\ndef get_init_inputs(n=4, d=8): pass", {"n": 4, "d": 8}),
        ("def get_inputs(n=4): pass\ndef get_init_inputs(n=8): pass", {}),  # which of both is the size?
        ("n = 4\ndef get_inputs(n=n): pass", {"n": 4}),  # follows n
        ("n = 4\ndef get_inputs(n=8): pass", {}),
        ("def forward(n=4): pass", {}),
    ],
)
def test_integers_that_depend_on_nothing_are_sizes(text: str, found: dict[str, int]) -> None:
    assert integers(tree(text)) == found


def test_what_is_computed_from_a_size_follows_it() -> None:
    module: dict[str, int] = {}
    changed = at_sizes(tree("b, n = 2, 4\nd = n * 2\np = 3 * 5"), {"n": 10, "p": 7})
    exec(compile(changed, "", "exec"), module)
    assert (module["b"], module["n"], module["d"], module["p"]) == (2, 10, 20, 7)


@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot be read as Python: .*No such file"), ("def", "cannot be read as Python")]
)
def test_a_file_that_cannot_be_read_is_named(content: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=f"problem.py {said}"):
        parsed(path)


SIZES = {"n": 6, "d": 8, "h": 2}


@pytest.mark.parametrize(
    ("dimension", "written"),
    [
        (lambda n, d, h: n, "n"),
        (lambda n, d, h: 5, "5"),
        (lambda n, d, h: 3 * n * d, "3nd"),
        (lambda n, d, h: n * n, "n^2"),
        (lambda n, d, h: d // h, "d/h"),
        (lambda n, d, h: 3 * d // h, "3d/h"),
        (lambda n, d, h: n + 1, None),
        (lambda n, d, h: n + d, None),
        (lambda n, d, h: max(n, d), None),
    ],
)
def test_a_dimension_that_is_a_product_of_sizes_is_found_and_no_other(dimension, written: str | None) -> None:
    base = dimension(**SIZES)
    each = {name: dimension(**SIZES | {name: 2 * size}) for name, size in SIZES.items()}
    together = dimension(**{name: 2 * size for name, size in SIZES.items()})
    assert formula(base, each, together, SIZES, {name: name for name in SIZES}) == written


def test_a_letter_is_the_first_free_one_of_its_name() -> None:
    assert letters_for(["kernel", "kinds", "dim"]) == {"kernel": "k", "kinds": "i", "dim": "a"}
