"""Looks inside a layer: not what it costs, but what it does with a sequence."""
