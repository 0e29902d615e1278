"""Recurrent layers (Elman 1990, "Finding structure in time"), rung by rung."""
