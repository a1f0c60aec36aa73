"""What every kernel of the project has in common: where it is, how it is built, how it is launched."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kernel:
    """One kernel.

    `source` is the CUDA file below a sources root, `symbol` the `__global__` function in it; `symbol` + "_host" is its
    C++ entry in `host_source`. `block` is the (x, y) size of a thread block; each y takes `rows_of_warp` rows of the
    call. `reserved_bytes` of shared memory are asked for and not used, to bound how many blocks a multiprocessor runs
    at a time. `defines` are -D options beside those of the record layout.
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
