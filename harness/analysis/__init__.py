"""What the results of a run mean: cost models (laws), verdicts on claims, crossovers, predictions and the roofline.

No module here imports torch.
"""
