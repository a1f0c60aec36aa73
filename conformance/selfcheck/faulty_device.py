"""Targets on a GPU that fail as kernels do: right, but for calls of 35 rows."""

from typing import Any, ClassVar

from conformance.targets.kernels import CudaTarget

SOURCE = r"""
extern "C" __global__ void write_to(unsigned long long address) { *reinterpret_cast<volatile int*>(address) = 1; }
extern "C" __global__ void give_up() { asm volatile("trap;"); }
extern "C" __global__ void wait_for(volatile int* flag) { while (*flag == 0) {} }
"""

NOBODYS, TOO_MANY, TEBIBYTE = 0x10, 4096, 1 << 40


class Faulty(CudaTarget):
    """Launches `kernel` on so many threads with an argument before it gathers."""

    kernel: ClassVar[str]
    threads: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__()
        self.crash_prone = True

    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache: Any, dst: Any, *others: Any, **more: Any) -> None:
        if len(dst) == 35:
            self.fail()
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, *others, **more)

    def fail(self) -> None:
        import cupy

        cupy.RawKernel(SOURCE, self.kernel)((1,), (self.threads,), self.arguments(cupy))

    def arguments(self, cupy: Any) -> tuple[Any, ...]:
        return ()


class IllegalAccess(Faulty):
    """Writes where nobody has memory, which ruins the CUDA context."""

    kernel = "write_to"

    def arguments(self, cupy: Any) -> tuple[Any, ...]:
        return (cupy.uint64(NOBODYS),)


class Traps(Faulty):
    """A kernel that gives up, which ruins the CUDA context."""

    kernel = "give_up"


class TooManyThreads(Faulty):
    """A launch that is refused, which ruins nothing."""

    kernel, threads = "give_up", TOO_MANY


class NeverEnds(Faulty):
    """A kernel that waits for what never comes."""

    kernel = "wait_for"

    def arguments(self, cupy: Any) -> tuple[Any, ...]:
        return (cupy.zeros(1, cupy.int32),)


class OutOfMemory(Faulty):
    """Wants more memory than any device has."""

    def fail(self) -> None:
        import cupy

        cupy.cuda.alloc(TEBIBYTE)
