"""Place a target's arguments in poisoned allocations as NumPy, CuPy or torch arrays, and read them back."""

from conformance.memory.arrays import ArrayMemory
from conformance.memory.protocol import Memory, Region
from conformance.memory.tensors import TorchMemory

__all__ = ["ArrayMemory", "Memory", "Region", "TorchMemory"]
