"""Published figures of a paper beside the measured ones, and a verdict on each of its claims.

paper.py        a paper with its figures and claims
read.py         reads and checks conf/paper/NAME.yaml
parts.py        reads and checks the parts of this file
quantities.py   the quantities of figures, computed from a line of a run
matching.py     finds the lines of a run that belong to a figure or a claim
figures.py      each published figure beside the measured one
claims.py       verdicts on claims (a ratio, a power of n, an overtaking), which carry over between machines
"""
