"""Statistics of measured times. Input and output are numbers: no torch, no clock."""
