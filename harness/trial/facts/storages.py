"""Which tensors share memory, during one observed call."""

import torch
from torch.multiprocessing.reductions import StorageWeakRef


class Storages:
    """A unique number for each storage, never reused.

    A storage's own address could be reused after it is freed. A weak reference reserves the address and still lets the
    memory go.
    """

    def __init__(self) -> None:
        self.nbytes: dict[int, int] = {}
        self._held: dict[int, StorageWeakRef] = {}

    def key(self, tensor: torch.Tensor) -> int:
        """Return the number of the tensor's storage. From then on, `nbytes` holds its size."""
        storage = tensor.untyped_storage()
        key: int = storage._cdata
        if key not in self.nbytes:
            self._held[key] = StorageWeakRef(storage)
            self.nbytes[key] = storage.nbytes()
        return key

    def freed(self) -> set[int]:
        """Return the numbers of the storages whose memory has been freed."""
        return {key for key, held in self._held.items() if held.expired()}
