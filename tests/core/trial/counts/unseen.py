"""Layers of whose work torch sees only a part."""

import ctypes
import mmap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor, nn

UNSEEN_BYTES = 10**8


class OwnLayer(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)


class Numpy(OwnLayer):
    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().numpy() * 2)


class NumpyInTheMiddle(OwnLayer):
    def forward(self, x: Tensor) -> Tensor:
        return self.mix(torch.from_numpy(x.detach().numpy() * 2))


class FillsAnArray(OwnLayer):
    """Torch itself writes all of numpy's memory."""

    def memory(self, size: int) -> Tensor:
        return torch.from_numpy(np.empty(size, np.float32))

    def forward(self, x: Tensor) -> Tensor:
        y = self.memory(x.numel()).view(x.shape)
        return y.copy_(self.mix(x))


class FillsAsArray(FillsAnArray):
    def memory(self, size: int) -> Tensor:
        return torch.asarray(np.empty(size, np.float32))


class FillsBytes(FillsAnArray):
    def memory(self, size: int) -> Tensor:
        return torch.frombuffer(bytearray(4 * size), dtype=torch.float32)


class FillsAFile(FillsAnArray):
    def memory(self, size: int) -> Tensor:
        return torch.frombuffer(mmap.mmap(-1, 4 * size), dtype=torch.float32)


class HasAnArray(OwnLayer):
    """Its array exists before the call, as a table in an attribute does."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.table = torch.from_numpy(np.ones(d_model, np.float32))

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x) * self.table


class Unpacks(OwnLayer):
    """Packs sequences in any order. Torch's C++ fills the lengths that come back."""

    def forward(self, x: Tensor) -> Tensor:
        lengths = torch.arange(x.shape[1], x.shape[1] - x.shape[0], -1).flip(0)
        packed = nn.utils.rnn.pack_padded_sequence(self.mix(x), lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])[0] * 2


class WrittenByHand(OwnLayer):
    """Like a C++ or Triton kernel that gets addresses; later operations use its output."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        ctypes.memmove(y.data_ptr(), x.data_ptr(), x.nbytes)
        return self.mix(y)


class KeepsItsResult(OwnLayer):
    """A cache that is never emptied."""

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "kept"):
            self.kept = self.mix(x)
        return self.kept


class Identity(OwnLayer):
    def forward(self, x: Tensor) -> Tensor:
        return x


class ComputesInAThread(OwnLayer):
    """A new thread for each call, which waits for it."""

    def forward(self, x: Tensor) -> Tensor:
        results: list[Tensor] = []
        is_trained = torch.is_grad_enabled()

        def work() -> None:
            with torch.set_grad_enabled(is_trained):
                results.append(self.mix(self.mix(x)))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return results[0]


class ComputesInAPool(OwnLayer):
    """Half of the tokens in each thread of a pool, which stays; the rest in the thread that calls."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.__dict__["pool"] = ThreadPoolExecutor(2)

    def forward(self, x: Tensor) -> Tensor:
        is_trained = torch.is_grad_enabled()

        def work(part: Tensor) -> Tensor:
            with torch.set_grad_enabled(is_trained):
                return self.mix(part)

        return self.mix(torch.cat([*self.pool.map(work, x.chunk(2, 1))], 1))


class FillsWhatWasEmpty(OwnLayer):
    """Row by row, as a loop does."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        for t in range(x.shape[1]):
            y[:, t] = self.mix(x[:, t])
        return y


class IgnoresTheSum(OwnLayer):
    """The sum's memory is for its shape alone, and was never written."""

    def forward(self, x: Tensor) -> Tensor:
        scores = torch.baddbmm(x.new_empty(x.shape[0], x.shape[1], x.shape[1]), x, x.mT, beta=0, alpha=0.5)
        return scores @ x


class HasConstants(OwnLayer):
    """One kept from before, as no buffer, and one made in each call."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.kept = [torch.full((d_model,), 2.0)]

    def forward(self, x: Tensor) -> Tensor:
        return x * self.kept[0] + torch.tensor([0.5])


class Mallocs(OwnLayer):
    """The work of torch, and 100 MB from the C library that are written and freed again."""

    def forward(self, x: Tensor) -> Tensor:
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
        address = libc.malloc(UNSEEN_BYTES)
        libc.memset(address, 1, UNSEEN_BYTES)
        libc.free(address)
        return self.mix(x)


class Maps(OwnLayer):
    """As many bytes, mapped from the kernel."""

    def forward(self, x: Tensor) -> Tensor:
        with mmap.mmap(-1, UNSEEN_BYTES) as mapped:
            for _ in range(UNSEEN_BYTES // 2**16):
                mapped.write(b"x" * 2**16)
        return self.mix(x)


class FillsAByteArray(OwnLayer):
    """As many bytes in an object of Python."""

    def forward(self, x: Tensor) -> Tensor:
        bytearray(b"x") * UNSEEN_BYTES
        return self.mix(x)


class FragmentsTheHeap(OwnLayer):
    """Nothing past torch: blocks of growing size, whose room on glibc's heap does not fit the next."""

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for size in range(1, 17):
            block = torch.ones(size * 2**18)
            kept.append(torch.ones(2**12))
            del block
        return self.mix(x) + kept[0][0]
