"""Cost models, scaling exponents and crossovers. Numbers in, numbers out, no torch."""
