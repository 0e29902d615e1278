"""Convolutional layers, the third row of table 1 of Vaswani et al. 2017."""
