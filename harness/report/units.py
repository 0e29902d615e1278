"""Numbers with units, short enough for a table or an axis."""

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1e-12, "ps"), (1e-15, "fs"))
_MULTIPLES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def seconds(value: float) -> str:
    """`0.00213` -> `2.13 ms`."""
    if value == 0:
        return "0 s"
    scale, unit = next(((scale, unit) for scale, unit in _SECONDS if abs(value) >= scale), _SECONDS[-1])
    return f"{three(value / scale)} {unit}"


def size(value: float) -> str:
    """Bytes in powers of 1024: `6291456` -> `6.00 MiB`."""
    for unit in _BYTES:
        if abs(value) < 1024 or unit == _BYTES[-1]:
            break
        value /= 1024
    return f"{value:.0f} B" if unit == "B" else f"{three(value)} {unit}"


def count(value: float) -> str:
    """A whole number with all digits, as long as a float holds them: `1073741824` -> `1,073,741,824`."""
    return f"{value:,.0f}" if abs(value) < 2**53 else power_of_ten(value)


def flops_rate(value: float) -> str:
    """FLOP/s in powers of 1000: `2.04e11` -> `204 GFLOP/s`."""
    scale, prefix = next(((scale, prefix) for scale, prefix in _MULTIPLES if abs(value) >= scale), _MULTIPLES[-1])
    return f"{three(value / scale)} {prefix}FLOP/s"


def share(value: float) -> str:
    """A fraction in per cent: `0.0312` -> `3.1 %`."""
    return f"{100 * value:.0f} %" if abs(value) >= 0.0995 else f"{100 * value:.1f} %"


def power_of_ten(value: float) -> str:
    """Any number with three digits: `3.2e-12` -> `3.20·10⁻¹²`; without a power where that is short."""
    if value == 0 or 1e-2 <= abs(value) < 1e5:
        return three(value) if value != int(value) else f"{value:.0f}"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_RAISED)}"


def round_text(text: str) -> str:
    """`1.00 ms` -> `1 ms`, for the round numbers of ticks."""
    number, _, unit = text.partition(" ")
    return f"{float(number):g} {unit}"


def three(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
