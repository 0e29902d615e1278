"""The driver: where trials run, in which order, when a case has enough of them, and what the screen shows."""
