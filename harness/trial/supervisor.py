"""The supervisor: a small process between the driver and the fork server. No process below it outlives it.

It ends when the driver ends, when the fork server ends, and when the fork server stays stopped. First it kills every
process below it, wherever a layer has moved that process, and removes what the trials left behind.

A stopped process obeys only SIGKILL and SIGCONT. SIGKILL would leave the supervisor no time to clean up. So the kernel
sends it SIGCONT when the driver ends, and SIGKILL to the fork server when the supervisor ends.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from harness import files
from harness.trial import sandbox

# The last line on the driver's socket, if the fork server stayed stopped.
STOPPED = "stopped"
# The prefix of the reason why the system could not start the fork server or a trial.
REFUSED = "refused "
# A whole job may be suspended and resumed: the fork server is then stopped for a moment longer than its supervisor.
_STOPPED_S, _RESUMED_S = 2.0, 0.2
_AWAITED = (signal.SIGTERM, signal.SIGCONT, signal.SIGCHLD)


def supervise(descriptor: int, directory: Path) -> None:
    """Fork the fork server and return in it. On systems other than Linux, this process becomes the fork server.

    `descriptor` is the socket to the driver. `directory` contains the trials' temporary directories.
    """
    if sys.platform != "linux":
        return
    driver, supervisor = os.getppid(), os.getpid()
    sandbox.adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    sandbox.die_with_parent(signal.SIGCONT)
    try:
        server = os.fork()
    except OSError as error:
        os.write(descriptor, f"{REFUSED}{error.strerror}\n".encode())
        os._exit(1)
    if server == 0:
        os.setsid()  # a signal to the fork server's process group does not reach the supervisor
        sandbox.die_with_parent()
        if os.getppid() != supervisor:
            os._exit(0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        return
    try:
        if _is_stopped_for_good(driver, server):
            with contextlib.suppress(OSError):
                os.write(descriptor, f"{STOPPED}\n".encode())
    finally:
        sandbox.kill_children()
        sandbox.unlink_noted()
        files.remove_scratch(directory)
        os._exit(0)


def _is_stopped_for_good(driver: int, server: int) -> bool:
    """Wait until supervision must end. Return whether the reason is a fork server that stays stopped.

    The other reasons are the end of the driver, the end of the fork server, and SIGTERM.
    """
    since: float | None = None
    received: signal.struct_siginfo | None = None
    while os.getppid() == driver:
        state = os.waitid(os.P_PID, server, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        if state is None:
            since = None
            received = signal.sigwaitinfo(_AWAITED)
        elif state.si_code != os.CLD_STOPPED:
            return False
        else:
            since = since or time.monotonic()
            left_s = since + _STOPPED_S - time.monotonic()
            if left_s <= 0 and received is None:  # a full wait has passed, in which this process was not suspended
                return True
            received = signal.sigtimedwait(_AWAITED, max(left_s, _RESUMED_S))
        if received is not None and received.si_signo == signal.SIGTERM:
            return False
    return False
