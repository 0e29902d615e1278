"""The origin of fork servers that tests share."""

import os
import subprocess
import sys
from pathlib import Path


def test_a_process_closes_the_origin_of_its_fork_servers_at_its_exit() -> None:
    code = "from forked_servers import Origin\norigin = Origin('pass')\norigin.start()"
    tests = str(Path(__file__).parent)
    command = [sys.executable, "-X", "dev", "-c", code]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": tests}, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
