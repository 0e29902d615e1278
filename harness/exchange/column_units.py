"""The unit of every column of the summary, for formats that store units.

Units are SI units, bytes, or 1 for a count.
"""

_SUFFIXES = {"_s": "s", "_bytes": "B", "_mhz": "MHz"}
_UNITS = {
    "seq_len": "token",
    "source_len": "token",
    "tokens_per_s": "token/s",
    "flops": "FLOP",
    "flops_full": "FLOP",
    "flops_claimed": "FLOP",
    "flops_per_byte": "FLOP/B",
    "minor_faults_per_call": "1/call",
    "involuntary_switches": "1/trial",
}


def unit(column: str, is_number: bool) -> str:
    """The column's unit; empty for texts and flags."""
    if not is_number:
        return ""
    return _UNITS.get(column) or next((unit for end, unit in _SUFFIXES.items() if column.endswith(end)), "1")
