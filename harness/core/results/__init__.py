"""The directory of a run: append rows, read them back, and summarise them as a tidy table with one line per case.

config.yaml   machine.json   rows/*.jsonl   summary.csv   laws.csv   plots/
"""
