"""Make targets from the steps of a writer, and defects from these targets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from conformance.faults.defect import Defect
from conformance.faults.write_steps import Records, WriteCall, Writer
from conformance.targets.base import WRITE_FP8, WRITE_GENERIC, WRITE_NVFP4
from conformance.targets.models import NumpyTarget
from reference.profiles import DEFAULT, Profile
from reference.scalars import Bf16Bits
from reference.writing import check_well_formed

NVFP4, FP8_DS_MLA, GENERIC = (frozenset({each}) for each in (WRITE_NVFP4, WRITE_FP8, WRITE_GENERIC))

Refuse = Callable[[ValueError, WriteCall], None]


def refuse(error: ValueError, call: WriteCall) -> None:
    """Raise `error`, the refusal of a malformed call (WRITE-9)."""
    raise error


class FaultyWriter(NumpyTarget):
    """Write every kv_cache_dtype by some steps, and claim some of them.

    `refuse` handles a malformed call, and `empty`, if given, a call without tokens.
    """

    def __init__(
        self,
        writer: Writer,
        claims: frozenset[str] = NVFP4,
        profile: Profile = DEFAULT,
        refuse: Refuse = refuse,
        empty: Callable[[], None] | None = None,
    ) -> None:
        """Set the steps and the claims. `profile` is declared, and the right rules follow it."""
        super().__init__(profile=profile)
        self.writer, self.refuse, self.empty = writer, refuse, empty
        self.capabilities = claims  # type: ignore[misc]

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        """Write the call's tokens by the steps. `refuse` raises ValueError for a malformed call."""
        arrays = {"kv_c": kv_c, "k_pe": k_pe, "kv_cache": kv_cache, "slot_mapping": slot_mapping, "scale": scale}
        call = WriteCall(arrays, kv_cache_dtype, self.profile)
        try:
            check_well_formed(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale)
        except ValueError as error:
            return self.refuse(error, call)
        if call.num_tokens == 0 and self.empty is not None:
            return self.empty()
        if call.num_tokens:
            self.writer(call)


def wrong(
    name: str,
    sentence: str,
    clause: str,
    *,
    claims: frozenset[str] = NVFP4,
    profile: Profile = DEFAULT,
    rules: Callable[[WriteCall, Bf16Bits, Bf16Bits], Records] | None = None,
    refuse: Refuse = refuse,
    empty: Callable[[], None] | None = None,
    source: str = "",
    **steps: Any,
) -> Defect:
    """Return a defect of a writer: wrong `rules` of quantization, or wrong `steps` of Writer."""
    writer = Writer(**steps) if rules is None else Writer(records=rules, **steps)
    target = partial(FaultyWriter, writer, claims, profile, refuse, empty)
    return Defect(f"write-{name}", sentence, clause, "write", target, source)
