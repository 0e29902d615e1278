"""What keeps a GPU measurable, tried without one: forks, compilers, allocators and kernels."""

import gc
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from core.trial.timing.cuda.simulated_gpu import SimGpu
from torch._inductor.exc import CppCompileError

from harness.cli.layers import _VERIFY_DEFAULTS
from harness.core.config.compose import compose
from harness.core.config.machine import keep_gpus_initialised, versions_text
from harness.core.model.sweep_axes import Case
from harness.core.trial import call_memory, compilation, device, fork_server, trial_kinds
from harness.core.trial.counts import after_call, collect
from harness.core.trial.device_kinds import TorchDevice
from harness.core.trial.nvml import _GPU_STATE, gpu_state
from harness.core.trial.timing.timed_trial import pipelined_call_s
from harness.core.trial.trial_kinds import outcome_of_exception
from harness.core.trial.workload import Unsupported

PROBE = """
import sys
import traceback
import torch
import torch.cuda

def touched(*_, **__):
    traceback.print_stack()
    raise SystemExit("CUDA was touched by an import")

# Each of these may call cuInit, after which a fork has no CUDA.
for module, names in {
    torch.cuda: ("_lazy_init", "init", "is_available", "device_count", "current_device", "get_device_capability"),
    torch.accelerator: ("is_available", "device_count", "current_accelerator"),
    torch: ("get_device_module",),
    torch._C: ("_get_accelerator", "_accelerator_getAccelerator"),
}.items():
    for name in names:
        if hasattr(module, name):
            setattr(module, name, touched)
from harness.core.layers import layer_lookup
from harness.core.config.machine import keep_gpus_initialised
from harness.core.trial import compilation, fork_server, trial_kinds
for name in layer_lookup.IMPLS:
    layer_lookup.load_class(name)
compilation.preload_compiler("cuda")
fork_server._prepare({"case": {"impl": "rnn.torch", "mode": "train", "device": "cuda"}})
fork_server.check_cuda_untouched({})
print("untouched", len(layer_lookup.IMPLS))
"""


@pytest.mark.parametrize("kind", device.GPUS)
@pytest.mark.parametrize("method", ["record", "query", "synchronize", "elapsed_time"])
def test_the_harness_keeps_the_methods_of_events_that_a_layer_replaces(
    monkeypatch: pytest.MonkeyPatch, kind: str, method: str
) -> None:
    monkeypatch.setattr(getattr(torch, kind).Event, method, None)
    assert getattr(device.EVENTS[kind], method) is not None


@pytest.mark.slow
def test_nothing_that_is_imported_before_a_fork_touches_cuda() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("untouched"), done.stderr[-2000:]


class Driver:
    """Of CUDA's driver, the one function that is asked. It is loaded with the flags of `dlopen`."""

    def __init__(self, answer: int) -> None:
        self.cuDeviceGetCount = lambda count: answer


def test_the_driver_tells_whether_anybody_has_started_it_and_an_unloaded_one_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loading = {"mode": os.RTLD_NOLOAD}
    assert not device.has_started_cuda()  # torch alone, of whatever build, has loaded none
    for answer, is_started in ((3, False), (0, True), (100, True)):  # not initialised; a device; no device
        monkeypatch.setattr(device.ctypes, "CDLL", lambda name, answer=answer, **how: how == loading and Driver(answer))
        assert device.has_started_cuda() is is_started


def test_a_fork_server_that_uses_cuda_refuses_to_fork_and_names_the_layer_that_did_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fork_server.check_cuda_untouched({"case": None})
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(fork_server.CudaAtWork, match=r"since it prepared a trial of my\.module:Layer"):
        fork_server.check_cuda_untouched({"case": {"impl": "my.module:Layer"}})


def test_the_driver_is_told_why_a_trial_was_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(fork_server.device, "has_started_cuda", lambda: True)
    monkeypatch.setattr(fork_server.environment, "probe_matrices", lambda: None)
    monkeypatch.setattr(fork_server, "IMPLS", {})
    for name in ("set_up_compiler", "triton_kernels"):
        monkeypatch.setattr(fork_server.compilation, name, lambda: None)
    monkeypatch.setattr(fork_server.sandbox, "adopt_orphans", lambda: None)
    monkeypatch.setattr(fork_server, "_freeze", lambda: None)
    monkeypatch.setattr(fork_server.os, "_exit", lambda status: (_ for _ in ()).throw(EOFError))
    monkeypatch.setattr(fork_server.os, "fork", lambda: pytest.fail("a process that uses CUDA was forked"))
    ours.sendall(b'{"purpose": "machine", "case": null}')
    ours.shutdown(socket.SHUT_WR)
    with pytest.raises(EOFError):
        fork_server.serve(theirs.detach())
    said = ours.recv(1000).decode().splitlines()
    ours.close()
    assert said[0] == "ready"
    assert said[1].startswith("refused CUDA is at work")


def build_of(source: str) -> subprocess.CalledProcessError:
    """How a build of Triton's fails: it calls the compiler and leaves the words to the terminal."""
    return subprocess.CalledProcessError(1, ["/usr/bin/gcc", source, "-O3", "-shared", "-fPIC", "-o", "x.so", "-lcuda"])


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (RuntimeError("Failed to find C compiler. Please specify via CC environment variable"), "install gcc"),
        (build_of("main.c"), "python3-dev"),
        (build_of("__triton_launcher.c"), "python3-dev"),
        (RuntimeError("main.c:5:10: fatal error: Python.h: No such file or directory"), "python3-dev"),
        (RuntimeError("x.cpp:1:10: fatal error: 'Python.h' file not found"), "python3-dev"),
    ],
)
def test_what_triton_needs_of_the_system_is_unsupported_with_what_to_install(error: Exception, what: str) -> None:
    outcome = outcome_of_exception(error)
    assert (outcome["status"], what in outcome["reason"]) == ("unsupported", True)


def test_a_layer_whose_own_command_fails_and_generated_code_that_does_not_compile_are_errors() -> None:
    assert outcome_of_exception(subprocess.CalledProcessError(1, ["gcc", "-shared", "x.c"]))["status"] == "error"
    generated = CppCompileError(["g++", "x.cpp"], "x.cpp:1: error: expected ';'")
    generated.__cause__ = build_of("x.cpp")
    assert outcome_of_exception(generated)["status"] == "error"


def test_triton_kernels_of_modules_imported_before_the_fork_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class JITFunction:
        def __init__(self) -> None:
            self.device_caches: dict[int, Any] = {0: ({"a version": None}, None)}

    monkeypatch.setitem(sys.modules, "triton.runtime.jit", SimpleNamespace(JITFunction=JITFunction))
    monkeypatch.setattr(compilation, "_noted_kernels", {})
    early = JITFunction()
    assert compilation.triton_kernels() == 1
    fork_server._freeze()
    fork_server._freeze()
    try:
        late = JITFunction()
        assert compilation.triton_kernels() == 2
    finally:
        gc.unfreeze()
    assert early is not late


def test_memory_that_runs_out_while_a_layer_is_watched_leaves_facts_unknown_and_is_no_failure() -> None:
    unknown: list[str] = []

    def take() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 69.00 GiB.")

    assert after_call.told(take, "flops", unknown) is None
    assert unknown == ["flops: out of memory while the layer was watched, where it runs uncompiled"]


@pytest.mark.parametrize(
    ("backend", "uncached", "said"),
    [("native", "", None), ("cudaMallocAsync", "", "cudaMallocAsync"), ("native", "1", "NO_CUDA_MEMORY_CACHING")],
)
def test_an_allocator_that_does_not_count_is_named(
    monkeypatch: pytest.MonkeyPatch, backend: str, uncached: str, said: str | None
) -> None:
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: backend)
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", uncached)
    found = TorchDevice.uncounted()
    assert found is None if said is None else said in str(found)


@pytest.mark.parametrize(
    ("version", "size"), [("2.6.0+cu124", "0"), ("2.7.1", "0"), ("2.8.0", None), ("2.13.0+cpu", None)]
)
def test_older_versions_of_torch_count_no_workspace_of_a_library(
    monkeypatch: pytest.MonkeyPatch, version: str, size: str | None
) -> None:
    monkeypatch.setenv("CUBLASLT_WORKSPACE_SIZE", "")
    monkeypatch.delenv("CUBLASLT_WORKSPACE_SIZE")
    call_memory.leave_out_workspaces(version)
    assert os.environ.get("CUBLASLT_WORKSPACE_SIZE") == size


def test_facts_on_a_gpu_count_no_workspace_of_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def build(case: Case, seed: int) -> None:
        raise Unsupported("the workspace was set before the layer is built" if seen else "it was not")

    monkeypatch.setattr(call_memory, "leave_out_workspaces", seen.append)
    monkeypatch.setattr(collect, "build", build)
    monkeypatch.setattr(collect.environment, "set_allocator", lambda allocator: None)
    with pytest.raises(Unsupported, match="was set before"):
        collect.collect_metrics(Case("rnn.torch", 8, 8, 1, device="cuda"), 0)
    assert seen == [torch.__version__]


def test_a_trial_borrows_tritons_drivers_before_it_runs_and_keeps_its_own_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []
    for name in ("keep_cache_in", "keep_stubs"):
        monkeypatch.setattr(compilation, name, lambda directory, name=name: seen.append((name, directory)))
    monkeypatch.setattr(trial_kinds.environment, "set_allocator", lambda value: None)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    monkeypatch.setattr(trial_kinds, "handler_of", lambda purpose: (lambda: seen.append("run") or {}, ()))
    case = Case("rnn.torch", 8, 8, 1).as_dict()
    trial_kinds._measure({"purpose": "time", "case": case, "compile_cache": "a case's"})
    assert seen == [("keep_cache_in", "a case's"), "run", ("keep_stubs", "a case's")]


def test_launches_that_wait_are_refused_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with pytest.raises(Unsupported, match="'unset CUDA_LAUNCH_BLOCKING'"):
        TorchDevice()


def test_the_length_of_a_turn_is_chosen_by_calls_in_a_row_and_not_by_the_wait_after_one() -> None:
    gpu = SimGpu(wait_s=15e-6)
    call = gpu.layer(1, kernel_s=8e-6)
    call()
    gpu.sync()
    start = gpu.now
    call()
    gpu.sync()
    once_s = gpu.now - start
    assert once_s > 2.5 * call.hot_s
    assert pipelined_call_s(call, gpu.sync, once_s, gpu.time) == pytest.approx(call.hot_s, rel=0.06)


class Nvml:
    """A library that tells some things of a GPU."""

    NVMLError = RuntimeError
    NVML_CLOCK_SM, NVML_CLOCK_MEM = "sm", "memory"

    def __getattr__(self, name: str) -> Any:
        told = {
            "nvmlInit": lambda: None,
            "nvmlDeviceGetHandleByUUID": lambda uuid: "ours",
            "nvmlSystemGetDriverVersion": lambda: "570.86.15",
            "nvmlDeviceGetPowerManagementLimit": lambda handle: 700_000,
            "nvmlDeviceGetMaxClockInfo": lambda handle, kind: {"sm": 1980, "memory": 3201}[kind],
            "nvmlDeviceGetApplicationsClock": lambda handle, kind: {"sm": 1500, "memory": 3201}[kind],
            "nvmlDeviceGetDefaultApplicationsClock": lambda handle, kind: {"sm": 1590}[kind],
            "nvmlDeviceGetPersistenceMode": lambda handle: 1,
            "nvmlDeviceGetEccMode": lambda handle: [1, 1],
        }
        if name not in told:
            raise AttributeError(name)
        return told[name]


def test_the_machine_is_described_with_what_decides_how_fast_a_gpu_is() -> None:
    assert gpu_state([("nvmlDeviceGetHandleByUUID", "GPU-1")], Nvml()) == {
        "driver": "570.86.15",
        "power_limit_w": 700.0,
        "sm_clock_max_mhz": 1980,
        "memory_clock_max_mhz": 3201,
        "application_sm_clock_mhz": 1500,
        "default_sm_clock_mhz": 1590,
        "application_memory_clock_mhz": 3201,
        "persistence_mode": 1,
        "ecc_mode": 1,
        "mig_mode": None,
    }


@pytest.mark.parametrize(("version", "text"), [(91300, "cuDNN 91300"), (None, "")])
def test_the_version_of_cudnn_is_told_unless_it_is_another_one_than_torch_was_built_with(
    monkeypatch: pytest.MonkeyPatch, version: int | None, text: str
) -> None:
    def told() -> int:
        if version is None:
            raise RuntimeError("cuDNN version incompatibility")
        return version

    monkeypatch.setattr(torch.backends.cudnn, "version", told)
    described = trial_kinds.describe_torch()
    assert described["cudnn"] == version
    assert versions_text({"torch": described}).count("cuDNN") == bool(text)
    assert text in versions_text({"torch": described})


def test_the_real_bindings_know_all_that_a_state_consists_of() -> None:
    import pynvml

    assert all(hasattr(pynvml, name) for asked in _GPU_STATE.values() for name in asked)


def test_each_gpu_that_torch_sees_is_described_by_its_uuid_in_cudas_order(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [("NVIDIA A100", "b2"), ("NVIDIA A100 MIG 1g.5gb", "GPU-c3"), ("NVIDIA A100", "a1")]
    properties = [SimpleNamespace(name=name, uuid=uuid) for name, uuid in seen]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: properties[index].name)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties.__getitem__)
    monkeypatch.setattr(trial_kinds.nvml, "gpu_state", lambda where: {"asked": where[0][1]})
    monkeypatch.setattr(trial_kinds.gpus, "borrowed_because", lambda: "a container")
    of_cuda = TorchDevice.describe()
    assert of_cuda["uuids"] == ["GPU-b2", "MIG-c3", "GPU-a1"]
    states = trial_kinds._gpu_states(of_cuda)
    assert {one["borrowed"] for one in states.values()} == {"a container"}
    # NVML is asked for the whole GPU before its slice.
    assert [(uuid, one["index"], one["asked"]) for uuid, one in states.items()] == [
        ("GPU-b2", 0, "GPU-b2"),
        ("MIG-c3", 1, "GPU-c3"),
        ("GPU-a1", 2, "GPU-a1"),
    ]
    monkeypatch.setattr(torch.version, "hip", "6.2")
    assert TorchDevice.describe()["uuids"] == [None, None, None]
    assert trial_kinds._gpu_states(of_cuda) == {}


def test_the_driver_is_kept_loaded_between_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    library = SimpleNamespace(
        NVMLError=RuntimeError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=found.append,
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert keep_gpus_initialised.__wrapped__()
    assert found == [0, 1]
    monkeypatch.setattr(library, "nvmlInit", lambda: (_ for _ in ()).throw(RuntimeError("no driver")))
    assert not keep_gpus_initialised.__wrapped__()


def test_a_gpu_gets_sizes_that_keep_it_busy_unless_others_are_given() -> None:
    assert compose(["device=cuda"]).axes["seq_len"] == (512, 1024, 2048, 4096, 8192)
    assert compose(["device=cuda"]).axes["batch_size"] == (4,)
    assert compose(["device=cuda", "shape=gpt2"]).axes["seq_len"] == (1024,)
    assert compose(["device=cuda", "seq_len=64"]).axes["seq_len"] == (64,)
    assert compose(["device=cpu"]).axes["seq_len"] == compose([]).axes["seq_len"]


def test_the_import_probe_is_about_the_code_of_this_checkout() -> None:
    assert Path(fork_server.__file__).is_relative_to(Path(__file__).parents[3])


def test_a_layer_is_verified_at_small_sizes_on_a_gpu_too() -> None:
    assert compose(["device=cuda"], usual=_VERIFY_DEFAULTS).axes["seq_len"] == (64,)
