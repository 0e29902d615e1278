"""The plots of a run: seaborn on separate matplotlib figures, never on pyplot's shared state."""
