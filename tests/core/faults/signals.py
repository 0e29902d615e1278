"""Signals to the processes of a sweep, each at a random moment."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from core.faults.driver import Driver, becomes_true
from core.faults.place import Fault, Place

KILL, STOP, TERM, INT = signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT
_KINDS = {KILL: "kills", STOP: "stops", TERM: "terminates", INT: "interrupts"}
_PROCESSES = {"driver": "driver", "parent": "fork server", "trial": "trial"}
# Allowed exit statuses beside 0 and 3. A sweep whose first trials do not answer ends with 2.
_DRIVER_ENDS = {KILL: (-KILL,), STOP: (), TERM: (130, -TERM), INT: (130,)}
_LONGEST_STOP_S = 1.0


def fault(number: signal.Signals, target: str) -> Fault:
    """A fault that sends the signal to the `driver`, the `parent` (the fork server) or the `trial`."""
    process = _PROCESSES[target]
    resumed = " and resumes it a second later at most" if (number, target) == (STOP, "driver") else ""
    return Fault(
        name=f"{number.name} to the {process}",
        kind=f"{number.name} to the {process}",
        tries=f"A signal {_KINDS[number]} the {process} at a random moment{resumed}.",
        ends=(0, 3, *(_DRIVER_ENDS[number] if target == "driver" else (2,))),
        deal=_sends(number, target),
        meanwhile=True,
    )


def _sends(number: signal.Signals, target: str) -> Callable[[Place, Driver | None], bool]:
    def deal(place: Place, driver: Driver | None) -> bool:
        assert driver is not None
        place.wait_for_a_moment(driver)
        becomes_true(lambda: not driver.runs() or _is_ready(driver, number, target))
        process = driver.target(target)
        if process is None or not _is_ready(driver, number, target):
            return False  # the sweep has ended, or is about to
        try:
            process.send_signal(number)
            if (number, target) == (STOP, "driver"):
                time.sleep(place.draw.uniform(0, _LONGEST_STOP_S))
                process.resume()
        except psutil.NoSuchProcess:
            return False
        return True

    return deal


def _is_ready(driver: Driver, number: signal.Signals, target: str) -> bool:
    """Whether the process exists and handles the signal.

    At its very start and end, the driver does not handle signals: Python itself would react to SIGINT.
    """
    process = driver.target(target)
    return process is not None and (number != INT or target != "driver" or _handles_sigterm(process.pid))


def _handles_sigterm(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (TERM - 1) & 1)
