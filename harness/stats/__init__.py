"""Statistics of measured times: numbers in, numbers out; no torch, no clock."""
