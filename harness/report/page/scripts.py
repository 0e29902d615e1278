"""Scripts and styles embedded in the page, and the policy that lets only these run.

The policy (Content Security Policy, level 3; W3C) names each script by its hash. If a script in the data ever got past
the escaping, it would not run. The policy also prevents loading anything from elsewhere.
"""

import base64
import hashlib
import re
from pathlib import Path

from markupsafe import Markup

_ASSETS = Path(__file__).parent / "assets"
_STYLES = ("page.css", "tables.css", "charts.css", "print.css")
_SCRIPTS = ("text.js", "figure.js", "curves.js", "speedup.js", "roofline.js", "crossovers.js", "controls.js", "page.js")
_END = re.compile(r"</(?=script)", re.IGNORECASE)


def style() -> Markup:
    """All of the page's CSS. None of it comes from outside the harness, so it is not escaped."""
    return Markup("\n".join(_read(name) for name in _STYLES))


def ours() -> str:
    """All of the page's own JavaScript, as one script."""
    return '"use strict";\n' + "\n".join(_read(name) for name in (*_SCRIPTS, "theme.js"))


def inline(source: str) -> Markup:
    """Return a script that can be embedded in HTML.

    `</script` within it does not end it. Its lines end in line feeds, as after an HTML parser.
    """
    unix = source.replace("\r\n", "\n").replace("\r", "\n")
    return Markup(_END.sub(r"<\\/", unix))


def policy(scripts: list[Markup]) -> str:
    """The Content Security Policy of a page with these scripts."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(script: Markup) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def _read(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
