"""The clock on a GPU: events on a queue that is held back, a cold L2 cache, and the GPU's own clock beside it."""
