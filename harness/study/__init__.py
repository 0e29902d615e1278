"""What the numbers mean: cost models, verdicts on claims, reports, and the check against a baseline."""
