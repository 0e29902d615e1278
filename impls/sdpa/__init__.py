"""Scaled dot-product attention without its projections (Vaswani et al. 2017, equation 1), as kernels are measured."""
