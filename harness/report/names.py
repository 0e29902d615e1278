"""An impl's name where there is little room."""

from harness.report.escaped import printable

MOST = 28


def short(impl: str, most: int = MOST) -> str:
    """At most so many characters: of `module:Class` the class stays whole if it can, the module loses its end.

    Control characters are written out.
    """
    name = printable(impl)
    if len(name) <= most:
        return name
    module, colon, own = name.rpartition(":")
    room = most - len(own) - 2
    if colon and room >= 4:
        return f"{module[:room]}…:{own}"
    half = (most - 1) // 2
    return f"{name[: most - 1 - half]}…{name[-half:]}"
