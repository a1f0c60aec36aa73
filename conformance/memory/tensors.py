"""Place arguments as torch tensors in poisoned allocations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance import machine
from conformance.allocations import ALIGNMENT, fill_of, scan, storable, to_alignment, without_margins
from conformance.memory.protocol import Region
from conformance.shortage import Room, stating_need
from fixtures.placement import Placement


class TorchMemory:
    """Place torch tensors on one device. bf16 is torch.bfloat16."""

    def __init__(self, device: str = "cpu") -> None:
        """Take torch's name of the device."""
        self.name, self.device = f"torch:{device}", device
        self.on_device = device.startswith("cuda")
        self.exact = False
        self._limit: int | None = None

    @stating_need
    def place(self, placement: Placement) -> Region:
        """See Memory."""
        import torch

        placement = without_margins(placement) if self.exact else placement
        data = storable(placement.data)
        fill = fill_of(placement)
        base = self._filled(placement.size + (0 if self.exact else ALIGNMENT // data.itemsize), fill, data.dtype)
        address = base.data_ptr() + placement.before * data.itemsize
        first = placement.before + to_alignment(address, placement)
        view = torch.as_strided(base, placement.shape, placement.strides, first)
        bf16 = placement.data.dtype == np.uint16
        region = Region(placement, base, view.view(torch.bfloat16) if bf16 else view, first)
        self.write(region, placement.data)
        return region

    @stating_need
    def write(self, region: Region, data: npt.NDArray[Any]) -> None:
        """See Memory."""
        import torch

        view, stored = region.view.view(region.base.dtype), torch.from_numpy(storable(data)).to(self.device)
        for dimension, stride in enumerate(region.placement.strides):
            if stride == 0:  # torch refuses to write an element twice
                view, stored = view.narrow(dimension, 0, 1), stored.narrow(dimension, 0, 1)
        view[self._held(region)] = stored

    @stating_need
    def read(self, region: Region) -> npt.NDArray[Any]:
        """See Memory."""
        import torch

        view = region.view.view(torch.int16) if region.view.dtype is torch.bfloat16 else region.view
        values: npt.NDArray[Any] = view[self._held(region)].cpu().contiguous().numpy()
        return values.view(region.placement.data.dtype).copy()

    @stating_need
    def strays(self, region: Region) -> list[int]:
        """See Memory."""
        placement, fill = region.placement, fill_of(region.placement)
        self.write(region, np.full(placement.data.shape, fill, storable(placement.data).dtype))
        if self.device == "cpu":  # NumPy scans faster
            return scan(region.base.numpy(), region.first, fill, np.flatnonzero)
        return scan(region.base, region.first, fill, lambda changed: changed.nonzero()[:, 0])

    def _held(self, region: Region) -> Any:
        import torch

        return ... if region.placement.at is None else torch.from_numpy(region.placement.at).long().to(self.device)

    def _filled(self, size: int, fill: int, dtype: np.dtype[Any]) -> Any:
        import torch

        # NumPy's zeros stay unbacked by memory until they are written; torch's do not.
        if fill == 0 and self.device == "cpu":
            return torch.from_numpy(np.zeros(size, dtype))
        return torch.full((size,), fill, dtype=getattr(torch, dtype.name), device=self.device)

    def synchronize(self) -> None:
        """See Memory."""
        import torch

        if self.on_device:
            torch.cuda.synchronize(self.device)

    @contextmanager
    def on_stream(self, stream: Any) -> Iterator[None]:
        """See Memory."""
        import torch

        external = torch.cuda.ExternalStream(stream.ptr, self.device)  # type: ignore[no-untyped-call]
        with stream, torch.cuda.stream(external):
            yield

    @contextmanager
    def count_allocations(self) -> Iterator[list[int]]:
        """See Memory."""
        import torch

        def allocated() -> tuple[int, int]:
            stats = torch.cuda.memory_stats(self.device)
            return stats.get("allocation.all.allocated", 0), stats.get("allocated_bytes.all.allocated", 0)

        seen: list[int] = []
        before = allocated()
        yield seen
        after = allocated()
        if after[0] != before[0]:
            seen.append(after[1] - before[1])

    def limit(self, nbytes: int) -> None:
        """See Memory."""
        import torch

        if self.on_device:
            number = torch.device(self.device).index
            torch.cuda.empty_cache()
            total = torch.cuda.get_device_properties(number).total_memory
            torch.cuda.set_per_process_memory_fraction(min(nbytes / total, 1.0), number)
            self._limit = nbytes

    def room(self) -> Room:
        """See Memory."""
        import torch

        if not self.on_device:
            return Room(free=machine.free_bytes())
        number = torch.device(self.device).index
        name, free = torch.cuda.get_device_name(number), torch.cuda.mem_get_info(number)[0]
        return Room(name, free, self._limit, torch.cuda.memory_allocated(number))
