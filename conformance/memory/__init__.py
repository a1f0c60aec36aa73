"""Where a target's arguments live: NumPy, CuPy or torch arrays placed in poisoned allocations, and read back."""

from conformance.memory.arrays import ArrayMemory
from conformance.memory.protocol import Memory, Region
from conformance.memory.tensors import TorchMemory

__all__ = ["ArrayMemory", "Memory", "Region", "TorchMemory"]
