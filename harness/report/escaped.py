"""Escape text from outside, so that terminals, Markdown and HTML within Markdown do not interpret it."""

import html
import re
import unicodedata

_INLINE = re.compile(r"([\\`*_\[\]|~$])")
_FIRST = re.compile(r"^([-+=]|\d+(?=[.)](?:\s|$)))")
# Forges turn `@name` and `#1` into links even if escaped. An empty comment after the sign prevents that.
_LINKS = re.compile(r"([@#])")


# Control and format characters, lone surrogates, and separators of lines and paragraphs.
# Terminals and bidirectional text obey them.
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str) -> str:
    """Return the text with invisible characters written out, as `\\x1b` or `\\n`: safe to print on a terminal."""
    if text.isprintable():
        return text
    return "".join(_written(sign) if unicodedata.category(sign) in _UNSEEN else sign for sign in text)


def _written(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")


def escape(text: str) -> str:
    """Return `text` on one line, escaped for inline Markdown, including table cells."""
    flat = printable(" ".join(text.split()))
    plain = html.escape(_INLINE.sub(r"\\\1", flat), quote=False)
    # Only punctuation can be escaped: in `1.`, that is the point.
    begun = _FIRST.sub(lambda begin: begin[1] + "\\" if begin[1].isdigit() else "\\" + begin[1], plain)
    return _LINKS.sub(r"\1<!-- -->", begun)


def code(text: str) -> str:
    """Return `text` on one line as a Markdown code span, between more backticks than it contains."""
    flat = printable(" ".join(text.split()))
    fence = "`" * (max((len(run) for run in re.findall("`+", flat)), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"
