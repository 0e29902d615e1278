"""Two layers, commits, environments or settings, side by side: which is slower, and where they differ."""
