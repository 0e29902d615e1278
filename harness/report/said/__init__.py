"""What is said of a run, as sentences and rows of text: written once for the terminal, the page and report.md."""
