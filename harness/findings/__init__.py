"""What the lines of a run say: laws, verdicts on claims, crossovers, predictions, the roofline. No torch."""
