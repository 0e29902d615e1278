"""Names of layers, shortened where space is limited."""

from harness.report.escaped import printable

MOST = 28


def short(impl: str, most: int = MOST) -> str:
    """Shorten a layer's name to at most `most` characters, with control characters written out.

    In `module:Class`, the class stays whole if possible and the module loses its end. Other names lose their middle.
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
