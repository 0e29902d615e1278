"""Which tensors share memory, for the length of one observed call."""

import torch
from torch.multiprocessing.reductions import StorageWeakRef


class Storages:
    """A number for each storage that is met, never used twice.

    A storage's address is: what is freed makes room for the next one. A weak reference keeps the address taken
    and lets the memory go.
    """

    def __init__(self) -> None:
        self.nbytes: dict[int, int] = {}
        self._held: dict[int, StorageWeakRef] = {}

    def key(self, tensor: torch.Tensor) -> int:
        """The number of the tensor's storage; `nbytes` holds its size from then on."""
        storage = tensor.untyped_storage()
        key: int = storage._cdata
        if key not in self.nbytes:
            self._held[key] = StorageWeakRef(storage)
            self.nbytes[key] = storage.nbytes()
        return key

    def freed(self) -> set[int]:
        """The numbers of those whose memory is gone."""
        return {key for key, held in self._held.items() if held.expired()}
