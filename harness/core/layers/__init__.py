"""Where a layer is found and what its source says of it, without importing it."""
