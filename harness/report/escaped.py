"""Text from outside, made such that a terminal, Markdown and the HTML in it read nothing into it."""

import html
import re
import unicodedata

_INLINE = re.compile(r"([\\`*_\[\]|~$])")
_FIRST = re.compile(r"^([-+=]|\d+(?=[.)](?:\s|$)))")
# `@name` and `#1` are links on a forge, and escaped they still are: a comment that shows nothing parts them.
_LINKS = re.compile(r"([@#])")


# Control and format characters, lone surrogates, and what breaks lines: a terminal or a bidirectional text obeys them.
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str) -> str:
    """The text with what cannot be seen in it written out, as `\\x1b` or `\\n`: safe to print on a terminal."""
    if text.isprintable():
        return text
    return "".join(_written(sign) if unicodedata.category(sign) in _UNSEEN else sign for sign in text)


def _written(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")


def escape(text: str) -> str:
    """Inline text on one line, in a table's cell too."""
    flat = printable(" ".join(text.split()))
    plain = html.escape(_INLINE.sub(r"\\\1", flat), quote=False)
    # Only punctuation can be escaped: of `1.` that is the point.
    begun = _FIRST.sub(lambda begin: begin[1] + "\\" if begin[1].isdigit() else "\\" + begin[1], plain)
    return _LINKS.sub(r"\1<!-- -->", begun)


def code(text: str) -> str:
    """Text as it stands, between more backticks than it holds."""
    flat = printable(" ".join(text.split()))
    fence = "`" * (max((len(run) for run in re.findall("`+", flat)), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"
