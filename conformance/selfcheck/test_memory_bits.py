"""Whatever library an array comes from, a target is handed the very bits of a case."""

from collections.abc import Callable

import numpy as np
import pytest

from conformance.memory import ArrayMemory, Memory, TorchMemory
from conformance.targets.kernels import CudaTarget, why_no_device
from fixtures.placement import placement

NEEDS_A_GPU = pytest.mark.skipif(why_no_device() is not None, reason="no CUDA device is visible")

MEMORIES = {
    "numpy": ArrayMemory,
    "torch": TorchMemory,
    "cupy": lambda: CudaTarget().memory,
    "torch:cuda": lambda: TorchMemory("cuda"),
}

# CuPy clears memory where it is told to write a scalar that equals zero, which -0.0 does.
SPECIAL = (0x80000000, 0x00000000, 0x7FC00001, 0xFFFFFFFF, 0x7F800001, 0x00000001, 0x3F800000)


@pytest.mark.parametrize("dimensions", [0, 1], ids=["scalar", "array of one"])
@pytest.mark.parametrize("bits", SPECIAL, ids=hex)
@pytest.mark.parametrize(
    "make", [pytest.param(MEMORIES[name], marks=[NEEDS_A_GPU] if "cu" in name else [], id=name) for name in MEMORIES]
)
def test_a_number_arrives_bit_for_bit(make: Callable[[], Memory], bits: int, dimensions: int) -> None:
    data = np.array([bits], np.uint32).view(np.float32).reshape([1] * dimensions)
    memory = make()
    region = memory.place(placement(data, (1,) * dimensions, poison=0x5A5A))
    assert memory.read(region).view(np.uint32).ravel().tolist() == [bits]
    assert memory.strays(region) == []
