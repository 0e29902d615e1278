"""Words from outside in a picture: the fonts that have their letters, and no mathematics read into a dollar sign."""

from collections.abc import Iterable
from typing import Any

from matplotlib import font_manager

from harness.report.escaped import printable

_FIRST = "DejaVu Sans"  # it comes with matplotlib
_BOXES = "Last Resort"  # it has a box for every sign, and comes with matplotlib too


def label(word: str, most: int) -> str:
    """The word in at most so many characters, none of them invisible."""
    shown = printable(word)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def fonts_for(texts: Iterable[str]) -> tuple[list[str], str]:
    """Families that have the texts' letters between them, and the letters that no font here has."""
    missing = set("".join(texts)) - _letters(font_manager.findfont(_FIRST))
    families = [_FIRST]
    for font in font_manager.fontManager.ttflist if missing else ():
        if font.style != "normal" or font.name in families or font.name.startswith(_BOXES):
            continue
        found = missing & _letters(font.fname)
        if found:
            families.append(font.name)
            missing -= found
    return families, "".join(sorted(missing))


def _letters(path: Any) -> set[str]:
    try:
        return set(map(chr, font_manager.get_font(path).get_charmap()))
    except (OSError, RuntimeError):  # of pictures, as colour emoji are: it cannot be drawn with
        return set()
