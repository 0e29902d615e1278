"""A run's results as sentences and rows of text, written once for the terminal, the page and report.md."""
