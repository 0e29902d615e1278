"""The pictures of a run: seaborn on matplotlib figures of our own, never on pyplot's shared state."""
