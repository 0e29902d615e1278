"""The faults that sweeps are tested with, and the expected result of each.

`FAULTS` are applied to a sweep or to its files. Each entry has the allowed exit statuses of the sweep. The invariants
that hold after every sweep are in `faults.invariants`.

`LAYERS` holds the expected result of each class in `faults.layers`: the status and a part of the reason.
"""

import os
from collections.abc import Callable
from pathlib import Path

from core.faults import damage, places, signals
from core.faults.place import Fault, Place

_GOES_ON, _REFUSED, _ENDS_EARLY = (0, 3), (2,), (0, 2, 3)


def _file(name: str, tries: str, deal: Callable[[Place], bool], ends: tuple[int, ...] = _GOES_ON) -> Fault:
    """A fault that damages the run's files between two sweeps."""
    return Fault(name, "files" if ends != _GOES_ON else "rows", tries, ends, lambda place, _: deal(place))


def _pipe(path: Path, place: Place) -> None:
    os.mkfifo(path)


def _directory(path: Path, place: Place) -> None:
    path.mkdir()


def _nothing(path: Path, place: Place) -> None:
    pass


def _garbage(path: Path, place: Place) -> None:
    path.write_bytes(place.draw.randbytes(200))


def _foreign_lock(path: Path, place: Place) -> None:
    path.write_text('{"host": "elsewhere", "pid": 1, "since": "2026-01-01 00:00:00", "boot": "another"}')


_ROWS = [
    _file("torn lines", "Half of the lines of a file end at random places.", damage.tear_lines),
    _file("a torn round", "The lines of round 1 end after 60 characters.", damage.tear_rounds),
    _file("a torn end", "A file ends at a random byte.", damage.tear_end),
    _file("garbage", "Lines of random bytes stand between the rows.", damage.insert_garbage),
    _file("NUL bytes", "Blocks of NUL bytes stand between the rows.", damage.insert_nuls),
    _file("huge lines", "A line of 2 MiB and deeply nested JSON stand between the rows.", damage.insert_huge_lines),
    _file("foreign rows", "JSON of other schemas stands between the rows.", damage.insert_foreign_rows),
    _file("rows of other cases", "Rows of cases outside the grid, or of impossible cases.", damage.add_other_cases),
    _file("rows that are not finite", "NaN and infinities replace all numbers of rows.", damage.add_what_is_not_finite),
    _file("repeated rows", "A file holds each row twice.", damage.repeat_rows),
    _file("copied files", "Files of rows are there under two more names.", damage.copy_files),
    _file("strange files", "An empty file, a directory, a pipe and a link to nothing.", damage.add_strange_files),
    _file("no results", "Tables, reports and plots are removed.", damage.remove_results),
]
_FILES = [
    _file("a cut machine.json", "machine.json ends early.", damage.truncated("machine.json"), (0, 2, 3)),
    _file("no machine.json", "machine.json is removed.", damage.replaced("machine.json", _nothing), (0, 2, 3)),
    _file("a pipe as machine.json", "Reading it would wait.", damage.replaced("machine.json", _pipe), (0, 2, 3)),
    _file("a cut config.yaml", "It lacks settings.", damage.truncated("config.yaml", before=b"seed:"), _REFUSED),
    # A run continues if its configuration lacks only settings that do not affect what is measured.
    _file("no end of config.yaml", "It lacks its end.", damage.truncated("config.yaml", after=b"launcher:"), (0, 2, 3)),
    _file("no config.yaml", "config.yaml is removed.", damage.replaced("config.yaml", _nothing), _REFUSED),
    _file("garbage as config.yaml", "It holds random bytes.", damage.replaced("config.yaml", _garbage), _REFUSED),
    _file("a pipe as config.yaml", "Reading it would wait.", damage.replaced("config.yaml", _pipe), _REFUSED),
    _file("a directory as config.yaml", "The file is missing.", damage.replaced("config.yaml", _directory), _REFUSED),
    _file("an edited size", "Another d_model.", damage.edited("config.yaml", "d_model: 8", "d_model: 16"), _REFUSED),
    _file(
        "an edited precision",
        "A number of rounds that is none.",
        damage.edited("config.yaml", "min_rounds: 2", "min_rounds: few"),
        _REFUSED,
    ),
    _file("a directory as summary.csv", "It has no room.", damage.replaced("summary.csv", _directory), _REFUSED),
    _file("a file as rows/", "The rows are elsewhere.", damage.hide_rows, _REFUSED),
    _file("garbage as lock.json", "It holds random bytes.", damage.locked(_garbage), (0, 2, 3)),
    _file("a foreign lock.json", "Another machine seems to measure there.", damage.locked(_foreign_lock), _REFUSED),
]
_SIGNALS = [
    signals.fault(number, target)
    for number in (signals.KILL, signals.STOP, signals.TERM, signals.INT)
    for target in ("driver", "parent", "trial")
]
_PLACES = [
    Fault("a full disk", "disk", "The disk is full before the sweep starts.", _ENDS_EARLY, places.fill_disk),
    Fault("a disk that fills up", "disk", "The disk fills up meanwhile.", _ENDS_EARLY, places.fill_disk, True),
    Fault("read-only", "directory", "out is read-only.", _REFUSED, places.make_read_only),
    Fault(
        "turns read-only",
        "directory",
        "out becomes read-only meanwhile.",
        _ENDS_EARLY,
        places.make_read_only,
        True,
    ),
    Fault("out renamed", "directory", "out gets another name meanwhile.", _ENDS_EARLY, places.rename, True),
    Fault("out removed", "directory", "out is removed meanwhile.", _ENDS_EARLY, places.remove, True),
]
FAULTS = {fault.name: fault for fault in (*_ROWS, *_FILES, *_SIGNALS, *_PLACES)}

LAYERS = {
    "Good": ("ok", ""),
    "ForksChildren": ("ok", ""),
    "IgnoresSigterm": ("timeout", "no result after 8 s"),
    "ClosesItsPipe": ("killed", "it closed its pipe without a result and went on running"),
    "ClosesItsPipeAndGoesOn": ("error", "its process ended with exit status 0 and without a result"),
    "ForksAndReturnsInTheChild": ("ok", ""),
    "AnswersForItself": ("error", "the answer of its process is not valid: it has no known 'status'"),
    "AnswersWithTheStatusAlone": ("error", "the answer of its process is not valid: 'against' is missing"),
    "AnswersWithManyBrackets": ("error", "the answer of its process is not valid: it is not JSON"),
    "AnswersWithoutAnEnd": ("error", "the answer of its process is not valid: it is longer than 64 MiB"),
    "FailsForNoText": ("error", "the answer of its process is not valid: 'reason' is not what it must be"),
    "ReplacesJsonDumps": ("ok", ""),
    "ReplacesOpenAndPrint": ("ok", ""),
    "ReplacesTheClocks": ("ok", ""),
    "MovesTheClock": ("ok", ""),
    "WritesAGigabyte": ("ok", ""),
    "ReadsItsInput": ("error", "EOFError: EOF when reading a line (layers.py:"),
    "ChangesDirectory": ("ok", ""),
    "ExitsAtOnce": ("error", "its process ended with exit status 0 and without a result"),
    "CallsSysExit": ("error", "SystemExit: enough (layers.py:"),
    "Raises": ("error", "RuntimeError: no such luck (layers.py:"),
    "RaisesUnprintable": ("error", "Unprintable: its message cannot be read (layers.py:"),
    "RaisesANumber": ("error", "PrintsANumber: its message cannot be read (layers.py:"),
    "RaisesDisguised": ("error", "Disguised: its message cannot be read (layers.py:"),
    "ReturnsNaN": ("incorrect", "not finite"),
    "ReturnsTheWrongShape": ("incorrect", "it returned shape (1, 7, 8) for an input of shape (1, 8, 8)"),
    "ReturnsAnotherDtypeLater": ("incorrect", "it returned torch.float32 at first and torch.float64 later"),
    "ReturnsAnotherDtype": ("incorrect", "it returned float64 for an input of float32"),
    "ReturnsComplexNumbers": ("incorrect", "it returned complex64 for an input of float32"),
    "ReturnsItsInput": ("ok", ""),
    "ReturnsAViewOfItsInput": ("ok", ""),
    "ExpandsItsInput": ("ok", ""),
    "ChangesItsInput": ("ok", ""),
    "KeepsByAddress": ("incorrect", "it returns the result of an earlier call"),
    "KeepsByIdentity": ("incorrect", "with a second input its output is off"),
    "KeepsByFirstElement": ("incorrect", "it returns the result of an earlier call"),
    "KeepsBySum": ("incorrect", "it returns the result of an earlier call"),
    "KeepsByFirstRow": ("incorrect", "it returns the result of an earlier call"),
    "SkipsWorkOutsideTorch": ("incorrect", "it returned the result of an earlier call: a new input takes"),
    "LeaksThreads": ("ok", ""),
    "Greedy": ("oom", "memory"),
    "GreedyInPython": ("oom", "memory"),
    "GreedyInPieces": ("oom", "memory"),
    "SignalsItsParent": ("killed", "the fork server ended"),
    "KillsItsParent": ("killed", "the fork server ended"),
    "StopsItsParent": ("killed", "the fork server stopped answering"),
    "StopsItsParentInVerify": ("killed", "the fork server stopped answering"),
    "StopsItsParentInTiming": ("killed", "the fork server stopped answering"),
    "StopsItsAncestors": ("killed", "the fork server stopped answering"),
    "StopsItself": ("timeout", "no result after 8 s"),
    "LeavesTemporaryFiles": ("ok", ""),
    "StartsThreadsWithoutEnd": ("oom", "it needs more than the memory limit of 256 MiB: RuntimeError: can't start"),
    "StartsOpenMPWithoutRoom": ("oom", "it needs more than the memory limit of 256 MiB: a library ended the process"),
    "MayStartNoThread": ("error", "no thread could be started: see `ulimit -u`"),
}
