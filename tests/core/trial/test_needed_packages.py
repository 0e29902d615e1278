"""An environment that runs trials needs torch, numpy and scipy, and nothing else that the harness needs."""

import subprocess
import sys

# Finds none of the other packages, as an environment without them.
BARE = """
import sys

class Nothing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in OTHERS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

OTHERS = sys.argv[1:]
sys.meta_path.insert(0, Nothing())
import harness.core.trial.fork_server
from harness.core.results.row import KINDS
from harness.core.trial.trial_kinds import handler_of
for purpose in KINDS:
    handler_of(purpose)
"""
OTHERS = """
    hydra omegaconf pydantic yaml orjson psutil rich pandas pyarrow matplotlib seaborn jinja2 markupsafe plotly pynvml
"""


def test_trials_import_only_what_an_environment_must_have() -> None:
    done = subprocess.run([sys.executable, "-c", BARE, *OTHERS.split()], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
