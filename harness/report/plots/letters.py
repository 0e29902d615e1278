"""Words from outside in a plot: the fonts that have their letters."""

from collections.abc import Iterable
from typing import Any

from matplotlib import font_manager

from harness.report.escaped import printable

_FIRST = "DejaVu Sans"  # comes with matplotlib
_BOXES = "Last Resort"  # has a box for every character, and comes with matplotlib too


def label(word: str, most: int) -> str:
    """The word in at most `most` characters, with invisible ones written out."""
    shown = printable(word)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def fonts_for(texts: Iterable[str]) -> tuple[list[str], str]:
    """Font families that together have the texts' letters, and the letters that no installed font has."""
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
    except (OSError, RuntimeError):  # a bitmap font, as of colour emoji: matplotlib cannot draw with it
        return set()
