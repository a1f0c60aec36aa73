"""Define writers that handle a call as a whole wrongly (WRITE-8, WRITE-9, WRITE-21, WRITE-22)."""

from __future__ import annotations

from functools import partial
from typing import Any

from conformance.faults.catalogue import FAULTS
from conformance.faults.defect import Defect
from conformance.faults.gathers import FaultyGather
from conformance.faults.write_rules import Rules
from conformance.faults.write_steps import Records, WriteCall, Writer, records
from conformance.faults.write_targets import GENERIC, FaultyWriter, wrong
from conformance.faults.wrong_nvfp4 import SCALES_INVERSE
from conformance.targets.base import GATHER, GATHER_STARTS, WRITE_NVFP4
from reference.scalars import Bf16Bits


def _launch_of_nothing() -> None:
    raise RuntimeError("invalid configuration argument: a grid of 0 blocks")


def _accepts(*words: str) -> Any:
    """Return a refusal that raises the error unless it contains one of the words."""

    def refuse(error: ValueError, call: WriteCall) -> None:
        if not any(word in str(error) for word in words):
            raise error

    return refuse


def _names_kv_c(error: ValueError, call: WriteCall) -> None:
    raise ValueError(str(error).replace("k_pe", "kv_c"))


def _names_nothing(error: ValueError, call: WriteCall) -> None:
    raise ValueError("invalid argument")


def _writes_first(error: ValueError, call: WriteCall) -> None:
    if "scale" in str(error):
        call.arrays["kv_cache"][:1] = 0
    raise error


class SharesAMistake(FaultyWriter):
    """Write and read the scales through the inverse permutation, so that it reads what it wrote."""

    def __init__(self) -> None:
        """Claim the writer and the gather of nvfp4_ds_mla."""
        super().__init__(Writer(records=SCALES_INVERSE), frozenset({WRITE_NVFP4, GATHER, GATHER_STARTS}))
        read = next(fault for fault in FAULTS if fault.name == "scales-inverse-permuted")
        self.reader = FaultyGather(read)

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """Gather with scales read through the inverse permutation."""
        self.reader.cp_gather_and_upconvert_nvfp4_kv_cache(
            src_cache, dst, block_table, workspace_starts, batch_size, seq_starts
        )


class _Remembered:
    """Keep the first content of the array that was asked for last."""

    def __init__(self) -> None:
        self.array: Any = None
        self.held: Any = None

    def of(self, array: Any) -> Any:
        # The array is kept alive, so that its address is not used again.
        if self.array is None or self.array.shape != array.shape or self.array.ctypes.data != array.ctypes.data:
            self.array, self.held = array, array.copy()
        return self.held


def _remembers_slots() -> FaultyWriter:
    known = _Remembered()
    return FaultyWriter(Writer(slots=lambda call: known.of(call.arrays["slot_mapping"]).copy()))


def _remembers_scale() -> FaultyWriter:
    known = _Remembered()

    def divided(call: WriteCall, x: Any) -> Any:
        return x / known.of(call.arrays["scale"]).reshape(-1)[0]

    return FaultyWriter(Writer(records=Rules(divided=divided)), GENERIC)


MOST_REMEMBERED = 4
"""Number of latents whose records are kept."""


def _remembers_records() -> FaultyWriter:
    known: dict[int, Records] = {}

    def made(call: WriteCall, kv_c: Bf16Bits, k_pe: Bf16Bits) -> Records:
        # A cache of records with the latent alone as its key would do so.
        key = hash((call.kv_cache_dtype, kv_c.tobytes()))
        found = known.setdefault(key, records(call, kv_c, k_pe))
        for oldest in [*known][:-MOST_REMEMBERED]:
            del known[oldest]
        return found

    return FaultyWriter(Writer(records=made))


REMEMBERS = partial(Defect, clause="WRITE-22", kind="write")

DEFECTS = (
    wrong(
        "nothing-launched",
        "an error for a call without tokens, as of an empty grid",
        "WRITE-8",
        empty=_launch_of_nothing,
    ),
    wrong("overlap-accepted", "records that overlap accepted", "WRITE-9", refuse=_accepts("overlap")),
    wrong(
        "short-rows-accepted",
        "rows of kv_c or k_pe shorter than slot_mapping accepted",
        "WRITE-9",
        refuse=_accepts("[>="),
    ),
    wrong("any-scale-accepted", "a scale of any type accepted", "WRITE-9", refuse=_accepts("scale is")),
    wrong(
        "unknown-dtype-accepted",
        "a kv_cache_dtype that is none accepted",
        "WRITE-9",
        refuse=_accepts("kv_cache_dtype is"),
    ),
    wrong("int32-slots-accepted", "slots of 32 bits accepted", "WRITE-9", refuse=_accepts("slot_mapping is int32")),
    wrong("refusal-names-another", "k_pe refused in the name of kv_c", "WRITE-9", refuse=_names_kv_c),
    wrong("refusal-names-nothing", "refused without naming an argument", "WRITE-9", refuse=_names_nothing),
    wrong("refusal-after-writing", "block 0 cleared before a scale is refused", "WRITE-9", refuse=_writes_first),
    Defect(
        "write-shares-a-mistake",
        "scales written and read through the inverse permutation",
        "WRITE-21",
        "write",
        SharesAMistake,
        "vllm 50084, 50085, 55976",
    ),
    REMEMBERS("write-remembers-slots", "the slots of the first call with an array used again", target=_remembers_slots),
    REMEMBERS("write-remembers-scale", "the scale of the first call with an array used again", target=_remembers_scale),
    REMEMBERS(
        "write-remembers-records", "the record of a latent used again, whatever its RoPE", target=_remembers_records
    ),
)
