"""Whatever library an array comes from, a target is handed the very bits of a case."""

from collections.abc import Callable

import numpy as np
import pytest

from conformance.allocations import backed_parts
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


@pytest.mark.parametrize("stray", [-(1 << 28), -1, 1, 600_000_000, 1_000_000_000], ids="{:,}".format)
@pytest.mark.parametrize("make", [ArrayMemory, TorchMemory])
def test_a_stray_write_far_away_in_a_huge_allocation_is_seen(make: Callable[[], Memory], stray: int) -> None:
    memory = make()
    region = memory.place(placement(np.array([[7], [9]], np.int32), (700_000_000, 1), poison=0))
    assert memory.strays(region) == []
    base = region.base if isinstance(region.base, np.ndarray) else region.base.numpy()
    base[region.first + stray] = 1
    assert memory.strays(region) == [stray]
    base[region.first + stray] = 0
    assert memory.strays(region) == []


def test_pages_that_are_not_backed_are_not_looked_at_and_where_nothing_says_so_all_are() -> None:
    base = np.zeros(1 << 30, np.uint32)
    base[5_000_000] = base[900_000_000] = 1
    parts = backed_parts(base, 5_000_000)
    assert sum(end - begin for begin, end in parts) < 1 << 21
    assert all(any(begin <= element < end for begin, end in parts) for element in (5_000_000, 900_000_000))
    assert backed_parts(base, 700_000_000) == [], "the page of an element that was written has to be among them"


def test_a_system_that_does_not_say_which_pages_are_backed_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*how: object, **more: object) -> None:
        raise PermissionError("no pagemap")

    monkeypatch.setattr("pathlib.Path.open", refused)
    assert backed_parts(np.ones(8, np.uint32), 0) == []
