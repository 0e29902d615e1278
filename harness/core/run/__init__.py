"""The driver of a sweep: it runs trials, decides their order and number, and shows progress."""
