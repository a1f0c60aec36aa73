"""Describe a kernel: its source, its build options and its launch geometry."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kernel:
    """Describe one kernel.

    `source` is the CUDA file below a sources root, and `symbol` the `__global__` function in it. `symbol` + "_host" is
    the C++ entry in `host_source`. `block` is the (x, y) size of a thread block; each y takes `rows_of_warp` rows of
    the call. `reserved_bytes` of shared memory are requested and not used, which limits how many blocks a
    multiprocessor runs at once. `defines` are -D options added to those of the record layout.
    """

    name: str
    source: str
    host_source: str
    symbol: str
    block: tuple[int, int]
    rows_of_warp: int = 1
    reserved_bytes: int = 0
    defines: tuple[str, ...] = ()

    def blocks(self, rows: int) -> int:
        """Return how many thread blocks cover `rows` rows, rows >= 1."""
        return -(-rows // (self.block[1] * self.rows_of_warp))
