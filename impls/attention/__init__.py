"""Multi-head self-attention (Vaswani et al. 2017, section 3.2), from plain loops to fused kernels."""
