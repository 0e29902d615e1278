"""The page about the columns of `summary.csv`: the table of columns in Markdown.

.venv/bin/python tests/results/data_dictionary.py > docs/columns.md
"""

from harness.results.columns import COLUMNS

_HEAD = """# The columns of summary.csv

Each line of `summary.csv` is one case. An empty cell means that there is no such number: `reason` and `facts_unknown`
say why. The same columns are in the notebook's `run.table` and in the exports. This page is generated from the table in
`harness/results/columns.py`. How the numbers are made: [times](estimator.md), [exact facts](facts.md).

"""


def data_dictionary() -> str:
    """The page's text."""
    lines = ["| column | unit | what it is |", "| --- | --- | --- |"]
    lines += [f"| `{one.name}` | {one.unit if one.unit != '1' else ''} | {one.about} |" for one in COLUMNS.values()]
    return _HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(data_dictionary(), end="")
