"""The gate: whether layers got worse, compared with a baseline or with another side. `measure` takes the numbers."""
