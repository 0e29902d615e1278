"""Text from outside in Markdown."""

import pytest

from harness.report.escaped import code, escape


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("rnn.torch, 1.08 times", "rnn.torch, 1.08 times"),
        ("a|b", "a\\|b"),
        ("`code` *bold* _it_", "\\`code\\` \\*bold\\* \\_it\\_"),
        ("[x](javascript:alert(1))", "\\[x\\](javascript:alert(1))"),
        ("<script>&", "&lt;script&gt;&amp;"),
        ("two\nlines\r\n# heading", "two lines #<!-- --> heading"),
        ("# heading", "#<!-- --> heading"),
        ("@somebody", "@<!-- -->somebody"),
        ("- item", "\\- item"),
        ("1. item", "1\\. item"),
        ("1.08 times", "1.08 times"),
        ("a\\|b", "a\\\\\\|b"),
    ],
)
def test_nothing_is_read_into_it(text: str, escaped: str) -> None:
    assert escape(text) == escaped


@pytest.mark.parametrize(
    ("text", "shown"),
    [("sweep impl=a", "`sweep impl=a`"), ("a `b` c", "``a `b` c``"), ("`", "`` ` ``"), ("a\nb", "`a b`")],
)
def test_code_holds_backticks_as_they_are(text: str, shown: str) -> None:
    assert code(text) == shown
