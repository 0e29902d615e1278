"""How long `--help` and `list` take, against an interpreter that does nothing, in one run."""

import statistics
import subprocess
import sys
import time

REPEATS = 15


def seconds(*arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def test_startup() -> None:
    commands = {
        "python -c pass": ("-c", "pass"),
        "python -m harness --help": ("-m", "harness", "--help"),
        "python -m harness list": ("-m", "harness", "list"),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(REPEATS):
        for name, command in commands.items():
            times[name].append(seconds(*command))
    print()
    for name, taken in times.items():
        print(f"{name:<26} median {statistics.median(taken):.3f} s   fastest {min(taken):.3f} s")
    print("to be reached: --help at most 0.15 s, list at most 0.3 s")
