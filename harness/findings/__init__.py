"""Results derived from the lines of a run. No torch.

These are cost models (laws), verdicts on claims, crossovers, predictions and the roofline.
"""
