"""Encoder and decoder blocks (Vaswani et al. 2017, section 3.1) around any attention layer."""
