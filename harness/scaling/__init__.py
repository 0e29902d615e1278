"""Laws behind the numbers: slopes and crossovers; numbers in, numbers out, no torch."""
