"""Numbers with units, short enough for a table or an axis."""

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def seconds(value: float) -> str:
    """`0.00213` -> `2.13 ms`."""
    scale, unit = next(((scale, unit) for scale, unit in _SECONDS if abs(value) >= scale), _SECONDS[-1])
    return f"{_three(value / scale)} {unit}"


def size(value: float) -> str:
    """Bytes in powers of 1024: `6291456` -> `6.00 MiB`."""
    for unit in _BYTES:
        if abs(value) < 1024 or unit == _BYTES[-1]:
            break
        value /= 1024
    return f"{value:.0f} B" if unit == "B" else f"{_three(value)} {unit}"


def _three(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
