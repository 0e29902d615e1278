"""The origin of fork servers and commands that tests share."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from forked_servers import ADDRESS, FORKED, Origin

_TESTS = Path(__file__).parent
_LIMIT_S = 30


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    """Those of a process whose command is run in a fork of an origin."""
    origin = Origin("pass")
    origin.start()
    path = os.pathsep.join(map(str, (_TESTS / "simulated_cuda" / "startup", _TESTS)))
    return {**os.environ, "PYTHONPATH": path, ADDRESS: origin.address, FORKED: "1"}


def _started(program: str, variables: dict[str, str], folder: Path, *arguments: str) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(f"import os, sys\n{program}\n")
    command = [sys.executable, "-m", "program", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_process_closes_the_origin_of_its_fork_servers_at_its_exit() -> None:
    code = "from forked_servers import Origin\norigin = Origin('pass')\norigin.start()"
    command = [sys.executable, "-X", "dev", "-c", code]
    variables = {**os.environ, "PYTHONPATH": str(_TESTS)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=_LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("program", "status", "out", "err"),
    [
        ("print(sys.argv[1:], os.getcwd() == sys.path[0])", 0, "['a', 'b c'] True\n", ""),
        ("import atexit\natexit.register(print, 'at the end')\nsys.exit(3)", 3, "at the end\n", ""),
        ("sys.exit('a reason')", 1, "", "a reason"),
        ("import threading\nthreading.Timer(0.1, print, ['later']).start()", 0, "later\n", ""),
        ("1 / 0", 1, "", "ZeroDivisionError: division by zero"),
        ("os._exit(130)", 130, "", ""),
    ],
    ids=["arguments", "status", "reason", "thread", "error", "immediate exit"],
)
def test_a_forked_command_ends_as_one_of_its_own(
    program: str, status: int, out: str, err: str, variables: dict[str, str], tmp_path: Path
) -> None:
    process = _started(program, variables, tmp_path, "a", "b c")
    printed, errors = process.communicate(timeout=_LIMIT_S)
    assert (process.returncode, printed) == (status, out)
    assert err in errors
    assert bool(err) == bool(errors)


def test_a_forked_command_ends_with_the_process_that_asked_for_it(variables: dict[str, str], tmp_path: Path) -> None:
    process = _started("import time\nprint(os.getpid(), flush=True)\ntime.sleep(60)", variables, tmp_path)
    assert process.stdout is not None
    command = os.pidfd_open(int(process.stdout.readline()))
    process.kill()
    process.communicate()
    assert select.select([command], [], [], _LIMIT_S)[0]
    os.close(command)


def test_a_forked_command_is_interrupted_as_one_of_its_own(variables: dict[str, str], tmp_path: Path) -> None:
    program = (
        "import time\ntry:\n    print(os.getpid(), flush=True)\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    sys.exit(5)"
    )
    process = _started(program, variables, tmp_path)
    assert process.stdout is not None
    assert int(process.stdout.readline()) != process.pid
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=_LIMIT_S)
    assert process.returncode == 5
