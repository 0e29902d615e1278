"""Scaled dot-product attention without projections (Vaswani et al. 2017, equation 1), as in kernel benchmarks."""
