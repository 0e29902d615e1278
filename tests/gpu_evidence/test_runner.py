"""How `.ci/cuda` runs parts within a time, keeps what they measure, and continues after a kill."""

import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from gpu_evidence import archive, guards, rehearsal, runner
from gpu_evidence.part_folder import DONE, FAILED, OUT_OF_TIME, RUNNING, PartFolder
from gpu_evidence.parts import PARTS, ROOT, Part
from gpu_evidence.publish import publish
from gpu_evidence.runner import Runner

# Each time it is run, it keeps a further row.
ONE_ROW = "open('rows.jsonl', 'a').write('{}\\n')"
FACTS = "facts/facts.json"
# It keeps a row, and measures on until Ctrl-C, at which it reports.
UNTIL_CTRL_C = f"""
import time
{ONE_ROW}
try:
    time.sleep(60)
except KeyboardInterrupt:
    print('report')
    raise SystemExit(130)
"""


def part(code: str, name: str = "part", **changed: Any) -> Part:
    """A part that runs this code in its own folder."""
    command = (sys.executable, "-c", f"import os; os.chdir('{{folder}}')\n{code}")
    given: dict[str, Any] = {"estimated_s": 1, "least_s": 1, "most_s": 60, "kept": "rows.jsonl"}
    return Part(name, "what it shows", command=command, **{**given, "evidence": "rows.jsonl", **changed})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


def run(*parts: Part, runs: Path, seconds: float = 100) -> list[str]:
    """Run the parts, and return the names of those that are left."""
    return Runner(runs, runs.with_name("runs.tar.gz"), seconds, rehearse=False).run(parts)


def state(part: Part, runs: Path) -> tuple[str, str]:
    found = PartFolder(part, runs).state
    return found.status, found.reason


def rows(part: Part, runs: Path) -> int:
    return len((runs / part.name / "rows.jsonl").read_text().splitlines())


def test_a_part_that_is_done_is_not_run_again(runs: Path) -> None:
    measuring = part(ONE_ROW)
    assert [run(measuring, runs=runs) for _ in range(2)] == [[], []]
    assert state(measuring, runs) == (DONE, "")
    assert rows(measuring, runs) == 1


@pytest.mark.parametrize(
    ("code", "reason"), [("raise SystemExit(4)", "exit status 4"), ("pass", "it has written no rows.jsonl")]
)
def test_a_part_that_fails_or_writes_nothing_is_left_with_the_reason_and_the_next_one_runs(
    runs: Path, code: str, reason: str
) -> None:
    failing, good = part(code, "failing"), part(ONE_ROW, "good")
    assert run(failing, good, runs=runs) == ["failing"]
    assert state(failing, runs) == (FAILED, reason)


SKIP = "SKIPPED [1] tests/test_a.py:50: no triton"


@pytest.mark.parametrize("earlier", ["pass", f"{ONE_ROW}; raise SystemExit(1)"])
def test_a_part_whose_tests_are_all_skipped_is_left_whatever_earlier_attempts_kept(runs: Path, earlier: str) -> None:
    skipped = part(f"print({SKIP!r})")
    for code in (part(earlier), skipped):
        assert run(code, runs=runs) == ["part"]
    assert state(skipped, runs) == (FAILED, SKIP)
    # It is done where some tests are skipped and others add evidence, or where no test is left.
    assert run(part(f"print({SKIP!r}); {ONE_ROW}"), runs=runs) == []


def test_a_sweep_that_ends_with_an_accepted_status_is_done_only_if_a_case_has_a_time(runs: Path) -> None:
    for time_s, left in (("", ["part"]), ("0.5", [])):
        summary = f"open('summary.csv', 'w').write('status,time_s\\nok,\\nok,{time_s}\\n'); raise SystemExit(3)"
        sweep = part(summary, evidence="summary.csv", accepts=(0, 3))
        assert run(sweep, runs=runs) == left
        assert state(sweep, runs) == ((FAILED, "no case has a time") if left else (DONE, ""))


def test_what_a_kill_cut_off_is_left_out(runs: Path) -> None:
    measuring = part(ONE_ROW)
    run(measuring, runs=runs)
    (runs / "part" / "state.json").write_text('{"status": "do')
    (runs / "part" / "rows.jsonl").write_text('{"case": {"case": 1}\n{"case": 2}\n{"case": 3}')
    assert state(measuring, runs) == ("not begun", "")
    run(measuring, runs=runs)
    assert (runs / "part" / "rows.jsonl").read_text() == '{"case": 2}\n{"case": 3}\n{}\n'


def test_a_part_that_is_out_of_time_gets_ctrl_c_and_continues_in_the_next_call(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = part(UNTIL_CTRL_C, most_s=1)
    for attempt in (1, 2):
        assert run(long, runs=runs) == ["part"]
        assert rows(long, runs) == attempt
        assert capsys.readouterr().out.count("\nreport\n") == 1
    assert state(long, runs) == (OUT_OF_TIME, "")
    assert PartFolder(long, runs).state.seconds > 2


def test_a_part_that_ignores_ctrl_c_is_killed_after_its_grace(runs: Path) -> None:
    code = f"import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); {ONE_ROW}; time.sleep(60)"
    began = time.monotonic()
    assert run(part(code, most_s=1, grace_s=1), runs=runs) == ["part"]
    assert time.monotonic() - began < 20


def test_a_part_is_not_begun_if_its_report_would_not_fit_into_the_time(runs: Path) -> None:
    assert run(part(ONE_ROW), runs=runs, seconds=0) == ["part"]
    assert runs.with_name("runs.tar.gz").exists()
    assert run(part(ONE_ROW, least_s=10, grace_s=25), part(ONE_ROW, "quick"), runs=runs, seconds=30) == ["part"]
    assert not (runs / "part" / "rows.jsonl").exists()


def test_the_archive_holds_what_is_measured_while_a_part_runs(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_RENEWED_EVERY_S", 0.1)
    packed: list[list[str]] = []
    pack = archive.pack
    monkeypatch.setattr(archive, "pack", lambda of, to: pack(of, to) or packed.append(archive.read(to).getnames()))
    run(part(UNTIL_CTRL_C, most_s=2), runs=runs)
    assert "part/rows.jsonl" in packed[-3]  # the last two are written after the part


def test_the_archive_has_no_compiled_kernels_and_names_large_files_that_are_left_out(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"compile-cache/kernel": 1, "plot.svg": 1, "rows": 12 * 2**20 + 1, "plot.png": 12 * 2**20}
    for name, size in sizes.items():
        (runs / name).parent.mkdir(exist_ok=True)
        (runs / name).write_text("x" * size)
    run(runs=runs)
    assert archive.read(runs.with_name("runs.tar.gz")).getnames() == ["plot.png"]
    assert capsys.readouterr().out == "left out of the archive, each over 12 MiB: rows\n"


def test_a_file_that_is_removed_while_the_archive_is_written_is_left_out(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = runs / "kept.txt"
    kept.touch()
    monkeypatch.setattr(Path, "rglob", lambda folder, pattern: [kept, runs / "removed.txt"])
    run(runs=runs)
    assert archive.read(runs.with_name("runs.tar.gz")).getnames() == ["kept.txt"]


def started(runs: Path, code: str) -> subprocess.Popen:
    """Start a runner with a part that runs this code, as a process of its own, and wait until the part keeps a row."""
    program = (
        "from gpu_evidence import runner\n"
        "from gpu_evidence.test_runner import part\n"
        f"runner.PARTS = [part({code!r})]\n"
        f"raise SystemExit(runner.main(['inf', '--runs', {str(runs)!r}]))\n"
    )
    command, variables = [sys.executable, "-c", program], runner.environment(rehearse=False)
    process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)
    while process.poll() is None and not any(file.stat().st_size for file in runs.glob("part/rows.jsonl")):
        time.sleep(0.02)
    return process


def test_a_kill_loses_nothing_and_ends_the_part_so_that_the_next_call_measures_alone(runs: Path) -> None:
    killed = started(runs, UNTIL_CTRL_C)
    measuring = os.pidfd_open(PartFolder(part(""), runs).state.process or 0)
    killed.kill()
    killed.communicate()
    assert select.select([measuring], [], [], 5)[0]
    assert state(part(""), runs) == (RUNNING, "")
    assert run(part(ONE_ROW), runs=runs) == []
    assert rows(part(""), runs) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_lets_the_part_report_and_packs_what_it_kept(runs: Path, number: signal.Signals) -> None:
    process = started(runs, UNTIL_CTRL_C)
    process.send_signal(number)
    output, _ = process.communicate()
    assert process.returncode == 1
    assert "the same command continues" in output
    assert "report" in (runs / "part" / "output.txt").read_text()
    archive.unpack(archive.read(runs.with_name("runs.tar.gz")), runs.with_name("other"))
    assert rows(part(""), runs.with_name("other")) == 1


Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Calls `.ci/cuda` with some parts. Returns its exit status and what it printed."""
    monkeypatch.setattr(runner, "read_ahead", lambda: subprocess.Popen([sys.executable, "-c", ""]))
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)

    def call(*words: object, parts: Sequence[Part] = (), folder: Path = runs) -> tuple[int, str]:
        monkeypatch.setattr(runner, "PARTS", parts)
        status = runner.main([*map(str, words), "--runs", str(folder)])
        return status, "".join(capsys.readouterr())

    return call


def test_another_machine_continues_from_the_archive_or_from_runs_of_its_own(runs: Path, command: Command) -> None:
    done, long = part(ONE_ROW, "done"), part(UNTIL_CTRL_C, "long", most_s=1)
    status, printed = command("inf", parts=[done, long])
    assert status == 1
    assert printed.rstrip().endswith("left: long")
    second, again = runs.with_name("second"), [done, part(ONE_ROW, "long")]
    for _ in range(2):
        assert command("inf", "--resume", runs.with_name("runs.tar.gz"), parts=again, folder=second)[0] == 0
        assert [rows(one, second) for one in again] == [1, 2]


def packed_runs(files: dict[str, str], folder: Path) -> Path:
    """An archive of these files."""
    for name, content in files.items():
        (folder / "packed" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "packed" / name).write_text(content)
    archive.pack(folder / "packed", folder / "packed.tar.gz")
    return folder / "packed.tar.gz"


@pytest.mark.parametrize(("uuid", "attempts"), [(1, 7), (2, 1)])
def test_facts_are_found_anew_on_another_gpu_of_the_same_kind(
    runs: Path, command: Command, monkeypatch: pytest.MonkeyPatch, uuid: int, attempts: int
) -> None:
    gpus = [{"gpu": "NVIDIA H100", "properties": f"uuid={number}"} for number in (1, uuid)]
    files = {FACTS: json.dumps(gpus[0]), "facts/state.json": '{"status": "done", "attempts": 7}'}
    monkeypatch.setattr(guards, "_gpu_here", lambda file, variables: file.write_text("{}") and gpus[1])
    facts = part(ONE_ROW, "facts")
    assert command("inf", "--resume", packed_runs(files, runs.parent), parts=[facts])[0] == 0
    assert PartFolder(facts, runs).state.attempts == attempts


@pytest.mark.parametrize(
    ("files", "words", "reason"),
    [
        ({}, "0 --publish published", "names no GPU: run the part facts"),
        ({FACTS: '{"gpu": "NVIDI'}, "0 --publish published", "names no GPU"),
        ({FACTS: '{"gpu": "error: no driver"}'}, "0 --publish published", "names no GPU"),
        ({FACTS: '{"gpu": "Another GPU"}'}, "1", "is of Another GPU, and here is"),
        ({"rehearsal.txt": ""}, "0", "is a rehearsal, whose figures mean nothing: add --rehearse"),
        ({FACTS: "{}"}, "0 --rehearse", "is no rehearsal"),
    ],
)
def test_a_sentence_says_why_an_archive_cannot_be_continued_or_published(
    runs: Path, command: Command, files: dict[str, str], words: str, reason: str
) -> None:
    packed, folder = packed_runs(files, runs.parent), runs.with_name("new")
    status, printed = command(*words.split(), "--resume", packed, parts=[part(ONE_ROW)], folder=folder)
    assert (status, folder.exists()) == (2, "rehearsal" not in reason)
    assert printed.splitlines()[-1].startswith(".ci/cuda: ")
    assert reason in printed


def test_a_damaged_archive_is_refused_before_anything_is_written(runs: Path, command: Command) -> None:
    packed, folder = packed_runs({"part/rows.jsonl": "{}\n" * 9}, runs.parent), runs.with_name("new")
    whole = packed.read_bytes()
    flipped = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in (0, 2, len(whole) // 2, len(whole) - 5)]
    for damaged in (b"", whole[:5], whole[:-1], *flipped):
        packed.write_bytes(damaged)
        status, printed = command("0", "--resume", packed, "--archive", packed, folder=folder)
        assert (status, printed.count("\n"), f"{packed} is damaged" in printed) == (2, 1, True)
        assert (folder.exists(), packed.read_bytes()) == (False, damaged)


def test_ctrl_c_before_the_first_part_is_a_sentence(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(runner, "prepare", lambda options: handlers[signal.SIGINT](signal.SIGINT, None))
    assert command("inf") == (1, "stopped: the same command continues\n")


def test_two_commands_do_not_run_in_one_folder(runs: Path, command: Command) -> None:
    first = started(runs, UNTIL_CTRL_C)
    status, printed = command("inf", parts=[part(ONE_ROW)])
    assert (status, printed.startswith(f".ci/cuda: another command runs in {runs}: ")) == (2, True)
    first.kill()
    first.communicate()
    assert command("inf", parts=[part(ONE_ROW)])[0] == 0


@pytest.mark.parametrize("full", ["archive", "folder"])
def test_a_full_disk_is_a_sentence_and_what_was_measured_stays(
    runs: Path, command: Command, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        if (runs / "part" / "rows.jsonl").exists():
            raise OSError(errno.ENOSPC, "No space left on device")

    unwritable = command("inf", "--archive", "/dev/null/packed.tar.gz", parts=[part(ONE_ROW)])
    assert (unwritable[0], list(runs.iterdir())) == (2, [])
    monkeypatch.setattr(*{"archive": (archive, "pack"), "folder": (PartFolder, "save")}[full], fail)
    status, printed = command("inf", parts=[part(ONE_ROW)])
    assert (status, printed.count("No space left on device")) == ({"archive": 1, "folder": 2}[full], 1)
    assert rows(part(""), runs) == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["ten"], "SECONDS"),
        (["-1"], "SECONDS"),
        (["smoke"], "smoke is not a number of seconds; inf is no limit"),
        (["inf", "--rehearse", "--publish", "results/../results/published/mine"], "a rehearsal has no results"),
        (["inf", "nonsense"], "no part 'nonsense'; choose from: facts smoke default clock"),
        (["inf", "--resume", "nowhere.tar.gz"], "there is no such file"),
        (["inf", "--archive", "build/cuda/all.tar.gz"], "choose a file outside"),
        *((["inf", option, "x" * 300], "File name too long") for option in ("--resume", "--archive", "--runs")),
    ],
)
def test_a_wrong_command_says_what_is_wrong(words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        runner.parsed(words)
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


def test_an_archive_of_other_runs_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = tmp_path / "build" / "cuda-rehearsal.tar.gz"
    earlier.parent.mkdir()
    earlier.touch()
    with pytest.raises(SystemExit):
        runner.parsed(["inf", "--runs", str(tmp_path / "runs"), "--archive", str(earlier)])
    assert f"add --resume {earlier}" in capsys.readouterr().err
    assert runner.parsed(["inf", "--rehearse"]).runs != rehearsal.PUBLISHED
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    assert runner.parsed(["inf", "--rehearse"]).archive == earlier  # a rehearsal overwrites its own


def test_a_group_names_all_of_its_parts() -> None:
    names = [part.name for part in runner.chosen_parts(["smoke", "ladder"], PARTS)]
    assert names == ["smoke", "ladder.attention", "ladder.rnn", "ladder.others"]


def test_parts_find_packages_after_the_project_and_keep_compiled_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/packages")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    variables, rehearsed = (runner.environment(rehearse) for rehearse in (False, True))
    project = os.pathsep.join(map(str, (ROOT / "tests", ROOT, "/packages")))
    assert variables["PYTHONPATH"] == project
    assert rehearsed["PYTHONPATH"] == os.pathsep.join((str(ROOT / "tests" / "simulated_cuda" / "startup"), project))
    assert "PYTHONDONTWRITEBYTECODE" not in variables


def test_the_plan_says_where_its_durations_are_from(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PUBLISHED", runs)
    (runs / "gpu").mkdir()
    (runs / "gpu" / "durations.json").write_text('{"gpu": "H", "date": "2026", "seconds": {"facts": 31}}')
    for rehearse, source, row in ((False, "as measured on H", "31 s measured"), (True, "estimates", "25 s estimate")):
        runner.show_plan(PARTS[:2], runs, rehearse)
        first, facts, smoke, *_ = capsys.readouterr().out.splitlines()
        assert (first.startswith(f"Seconds expected: {source}"), row in facts) == (True, True)
        assert smoke.split()[:5] == ["smoke", "25", "s", "estimate", str(int(row[:2]) + 25)]


def test_a_command_is_kept_as_a_shell_takes_it(runs: Path) -> None:
    listed = part("pass", variables=(("RECORDS", "{folder}"),))
    run(Part(**{**vars(listed), "command": (sys.executable, "-m", "x", "n=[1,2]", "out={folder}/run")}), runs=runs)
    assert (runs / "part" / "command.txt").read_text() == "RECORDS=part python -m x 'n=[1,2]' out=part/run\n"


def test_what_is_published_has_commands_tables_rows_and_durations(runs: Path, tmp_path: Path) -> None:
    facts = part("open('facts.json', 'w').write('{\"gpu\": \"NVIDIA H100\"}')", "facts", evidence="facts.json")
    sweep, never = part(ONE_ROW, "sweep"), part("", "never")
    run(facts, sweep, runs=runs)
    for name in ("summary.csv", "report.md", "report.html", "rows/one.jsonl", "plots/time.png"):
        file = runs / "sweep" / "run" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    target = publish([facts, sweep, never], runs, tmp_path / "published", is_rehearsal=True)
    assert target.name == "nvidia-h100"
    published = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert published == {
        *("durations.json", "facts/command.txt", "facts/facts.json", "facts/output.txt"),
        *("sweep/command.txt", "sweep/output.txt", "sweep/summary.csv", "sweep/report.md"),
        *("sweep/rows.tar.gz", "sweep/plots/time.png"),
    }
    (target / "durations.json").write_text('{"seconds": {"facts": 20, "sweep": 900}}')
    publish([facts], runs, tmp_path / "published", is_rehearsal=True)
    durations = json.loads((target / "durations.json").read_text())
    assert durations["gpu"] == "NVIDIA H100"
    assert durations["seconds"] == {"facts": round(PartFolder(facts, runs).state.seconds), "sweep": 900}
