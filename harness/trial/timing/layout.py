"""Give each trial's heap a layout of its own.

Whether the C library can hand a large block out again, or must fetch fresh pages from the kernel for every
call, depends on what lies above it in the heap: a matter of luck, decided once in the life of a process.
Trials forked from one parent inherit one and the same luck. Then all of them agree, their interval is narrow,
and another sweep's are twice as fast. (Packed attention at n = 512, d = 256, h = 8, five trials from each of
five parents: 4.6 or 8.2 ms by the parent, with 1,500 or 4,600 page faults a call.) So each trial first litters
its heap at random, and the luck differs between trials, where the interval can see it: Mytkowicz et al. 2009,
"Producing wrong data without doing anything obviously wrong!".
"""

import random

_BLOCKS = 128
# Below glibc's first mmap threshold of 128 KiB: a larger block would not lie in the heap, and freeing one would
# move the threshold.
_LARGEST_POWER = 16


def litter() -> list[bytearray]:
    """Blocks of random sizes, every second one freed again. To be held for as long as the trial lasts."""
    draws = random.SystemRandom()
    blocks = [bytearray(draws.randrange(1, 1 << draws.randint(4, _LARGEST_POWER))) for _ in range(_BLOCKS)]
    return draws.sample(blocks, _BLOCKS // 2)
