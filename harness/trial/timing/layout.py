"""Give each trial's heap its own random layout.

The C library reuses a large block, or fetches new pages from the kernel for every call. Which one happens depends on
what lies above the block in the heap. This is decided by chance, once in the life of a process, and trials forked from
one parent inherit the same layout. Such trials agree with each other and their interval is narrow, but the trials of
another sweep may be twice as fast.

Example: packed attention at n = 512, d = 256, h = 8, with five trials from each of five parents. A call took 4.6 or
8.2 ms, depending on the parent, with 1,500 or 4,600 page faults.

Therefore each trial first places blocks at random in its heap. The layout then differs between trials, and the interval
includes its effect. See Mytkowicz et al. 2009, "Producing wrong data without doing anything obviously wrong!".
"""

import random

_BLOCKS = 128
# Blocks of up to 2^16 bytes are below glibc's initial mmap threshold of 128 KiB. A larger block would not lie in the
# heap, and freeing it would move the threshold.
_LARGEST_POWER = 16


def litter() -> list[bytearray]:
    """Allocate blocks of random sizes and free a random half. Keep the returned blocks until the trial ends."""
    draws = random.SystemRandom()
    blocks = [bytearray(draws.randrange(1, 1 << draws.randint(4, _LARGEST_POWER))) for _ in range(_BLOCKS)]
    return draws.sample(blocks, _BLOCKS // 2)
