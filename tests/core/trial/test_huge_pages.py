"""The fork server's memory in huge pages, which makes forks cheaper."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_CODE = """
import sys
from pathlib import Path
from harness.core.trial import fork_server

def huge():
    text = Path("/proc/self/smaps_rollup").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("AnonHugePages")))

kept = [bytes([i % 256]) * 4096 for i in range(8192)]  # 32 MiB of small blocks
before = huge()
fork_server._use_huge_pages()
assert all(block == bytes([i % 256]) * 4096 for i, block in enumerate(kept))
print(huge() - before)
"""


def _kernel() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))


@pytest.mark.skipif(
    sys.platform != "linux"
    or _kernel() < (6, 1)
    or not Path("/proc/self/smaps_rollup").exists()
    or not Path("/sys/kernel/mm/transparent_hugepage").exists(),
    reason="needs a Linux kernel that gathers memory in huge pages on request",
)
def test_small_blocks_end_up_in_huge_pages_and_keep_their_content() -> None:
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 16 * 1024  # KiB
