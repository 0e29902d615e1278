"""Text from outside in Markdown."""

import pytest

from harness.core.model.formatting import code, printable, shortened
from harness.study.report.document import escape_markdown


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
    assert escape_markdown(text) == escaped


@pytest.mark.parametrize(
    ("text", "shown"),
    [("sweep impl=a", "`sweep impl=a`"), ("a `b` c", "``a `b` c``"), ("`", "`` ` ``"), ("a\nb", "`a b`")],
)
def test_code_holds_backticks_as_they_are(text: str, shown: str) -> None:
    assert code(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rnn.torch, n² → 3 µs", "rnn.torch, n² → 3 µs"),
        ("red \x1b[31m", "red \\x1b[31m"),
        ("two\nlines\t", "two\\nlines\\t"),
        ("back\u202ewards", "back\\u202ewards"),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


def test_markdown_holds_no_control_character() -> None:
    assert escape_markdown("a\x1b[31m") == "a\\\\x1b\\[31m"
    assert code("a\x1b[31m") == "`a\\x1b[31m`"


@pytest.mark.parametrize(
    ("impl", "shown"),
    [
        ("attention.fused", "attention.fused"),
        ("a.very.long.path.to.some.module:Layer", "a.very.long.path.to.s…:Layer"),
        ("a" * 20 + "b" * 20, "a" * 14 + "…" + "b" * 13),
        ("m:" + "C" * 40, "m:" + "C" * 12 + "…" + "C" * 13),
    ],
)
def test_a_long_name_loses_its_middle(impl: str, shown: str) -> None:
    assert shortened(impl) == shown
    assert len(shown) <= 28
