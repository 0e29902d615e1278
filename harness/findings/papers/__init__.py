"""What a paper has published, beside what was measured: figures cell by cell, and a verdict on each of its claims.

paper.py        a paper: its figures, its claims
read.py         what conf/paper/NAME.yaml holds of one, checked
parts.py        … and of what that is made
quantities.py   what a figure is of, and how it follows from a line of a run
matching.py     which lines of a run a figure or a claim is of
figures.py      each published figure beside the measured one
claims.py       a claim (a ratio, a power of n, an overtaking), which carries over between machines, and its verdict
"""
