"""Which bytes the lanes of a warp touch together in each load and store, told from the machine code alone.

The code is walked with what each register holds in the 32 lanes (`values`), from the entry over every branch until
nothing new is learnt. What is assumed:

- thread blocks are 32 threads wide, so that SR_TID.X is the lane and SR_TID.Y is the same in a warp;
- memory that two lanes read at one address in one instruction is the same for both;
- a subroutine returns to the instruction behind its call.

Offsets are told modulo 2^32: a carry that went wrong is not seen here, but no gather with one would be right.
"""

from kernels.lanes.accesses import Access as Access
from kernels.lanes.accesses import accesses as accesses
