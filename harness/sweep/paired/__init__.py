"""Two sides measured at the same time, in turns: base and head, each with processes of its own."""
