"""What every other package may know: the axes, cases and options, polynomials, errors, texts and files."""
