"""The committed reference pages are those that the code generates."""

import pytest
from docs.reference_pages import DIRECTORY, pages

WRITE = "run: .venv/bin/python tests/docs/reference_pages.py"


@pytest.mark.parametrize("name", pages())
def test_a_reference_page_is_what_the_code_says(name: str) -> None:
    assert (DIRECTORY / name).read_text(encoding="utf-8") == pages()[name], WRITE
