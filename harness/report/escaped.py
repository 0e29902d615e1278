"""Text from outside, made such that Markdown and the HTML in it read nothing into it."""

import html
import re

_INLINE = re.compile(r"([\\`*_\[\]|~$])")
_FIRST = re.compile(r"^([-+=]|\d+(?=[.)](?:\s|$)))")
# `@name` and `#1` are links on a forge, and escaped they still are: a comment that shows nothing parts them.
_LINKS = re.compile(r"([@#])")


def escape(text: str) -> str:
    """Inline text on one line, in a table's cell too."""
    flat = " ".join(text.split())
    plain = html.escape(_INLINE.sub(r"\\\1", flat), quote=False)
    # Only punctuation can be escaped: of `1.` that is the point.
    begun = _FIRST.sub(lambda begin: begin[1] + "\\" if begin[1].isdigit() else "\\" + begin[1], plain)
    return _LINKS.sub(r"\1<!-- -->", begun)


def code(text: str) -> str:
    """Text as it stands, between more backticks than it holds."""
    flat = " ".join(text.split())
    fence = "`" * (max((len(run) for run in re.findall("`+", flat)), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"
