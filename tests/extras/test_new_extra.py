"""A new extra adds itself to the tables of other extras too."""

import shutil
from pathlib import Path

from tests.test_extras import ROOT, copy, printed

__all__ = ["copy"]  # a fixture
MORE_ENTRIES = """
LAYER_SOURCES = [("times", "harness.extras.greeting.trials:layer_of")]
FINDINGS = ["harness.extras.greeting.findings:greet"]
FORMATS = [("names", ".txt", "harness.extras.greeting.findings:export_names")]
"""
SOURCE = """
import torch

def layer_of(number):
    class Scaled(torch.nn.Module):
        def __init__(self, d_model):
            super().__init__()

        def forward(self, x):
            return float(number) * x

    return Scaled
"""
FINDINGS = """
from harness.study.report.document import Section, Sentence

class Greeting:
    title, kind, tables = "Greetings", "greeting", {}

    def __init__(self, lines):
        self.sentences = [f"Hello {line.impl}." for line in lines]

    def section(self, hardware):
        return Section("Greetings", [Sentence(sentence) for sentence in self.sentences])

def greet(config, lines):
    return Greeting(lines)

def export_names(stored):
    return "\\n".join(line.impl for line in stored.lines).encode(), len(stored.lines)
"""


def test_a_new_folder_adds_a_source_of_layers_a_finding_and_a_format(copy: Path) -> None:
    extras = copy / "harness" / "extras"
    shutil.copytree(ROOT / "harness" / "extras" / "export", extras / "export")  # it has the command that exports
    shutil.copy(ROOT / "harness" / "extras" / "__init__.py", extras)
    (extras / "greeting").mkdir()
    for name, text in {"__init__": MORE_ENTRIES, "trials": SOURCE, "findings": FINDINGS}.items():
        (extras / "greeting" / f"{name}.py").write_text(text)
    quick = [f"precision.{key}" for key in ("trial_s=0.001", "min_rounds=1", "max_rounds=1", "patience_s=0")]
    printed(copy, "sweep", "impl=times:3", "seq_len=4", "d_model=8", "num_heads=1", "out=run", "--no-plots", *quick)
    assert "# Greetings\n\nHello times:3." in (copy / "run" / "report.md").read_text()
    printed(copy, "export", "run", "--format", "names", "-o", "names.txt")
    assert (copy / "names.txt").read_text() == "times:3"
