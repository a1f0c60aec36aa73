"""Keep one paged cache and one workspace in a target's memory, and check both after every call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.generation import Random
from conformance.judge import Judge
from conformance.memory import Region
from conformance.observe import TargetError, invoke, look, settle
from conformance.scenarios.golden import SCALE
from conformance.scenarios.scenario import Scenario
from conformance.targets.base import GATHER_GENERIC, GATHERS, WRITES
from conformance.verdict import Differs
from fixtures.placement import POISONS, placement
from reference.reading import Records
from reference.scalars import Bf16Bits
from reference.writing import FORMATS

POISON = POISONS[0]
PADDING = 0x7FC1  # a NaN, which rows without a slot hold


def needed_to_serve(kv_cache_dtype: str) -> str:
    """Return the capability without which nothing can be read back: a gather."""
    return GATHERS[kv_cache_dtype][0]


def takes_starts(judge: Judge, kv_cache_dtype: str) -> bool:
    """Return whether the target's gather takes seq_starts. Without them it gathers whole contexts only."""
    return GATHERS[kv_cache_dtype][1] in judge.target.capabilities


class Cache:
    """Hold the cache that a target writes, and the workspace, which keeps rows of earlier chunks."""

    def __init__(self, judge: Judge, scenario: Scenario, kv_cache_dtype: str, workspace_rows: int) -> None:
        """Place both, filled with poison. Raises Unsupported if the target lacks the gather."""
        judge.need(needed_to_serve(kv_cache_dtype))
        if takes_starts(judge, kv_cache_dtype):
            judge.need(GATHERS[kv_cache_dtype][1])
        self.judge, self.scenario, self.kv_cache_dtype = judge, scenario, kv_cache_dtype
        self.target, self.memory, self.workspace_rows = judge.target, judge.target.memory, workspace_rows
        capability = WRITES[kv_cache_dtype]
        self.writes = capability in self.target.capabilities and not self.target.hindrance(capability)
        form, records = FORMATS[kv_cache_dtype], (scenario.num_blocks, scenario.block_size)
        self.expected = np.full((*records, form.width), POISON.cache, form.dtype)
        strides = (scenario.block_size * form.width + scenario.block_slack, form.width, 1)
        self.cache = self.memory.place(placement(self.expected, strides, POISON.cache))
        self.rows = np.full((workspace_rows, 576), POISON.dst, np.uint16)
        self.workspace = self.memory.place(placement(self.rows, (576, 1), POISON.dst))
        self.seen: npt.NDArray[Any] | None = None

    def write(self, kv_c: Bf16Bits, k_pe: Bf16Bits, slots: npt.NDArray[np.int64], records: npt.NDArray[Any]) -> int:
        """Write a batch, padded with tokens of slot -1, by the target's writer, or from the host if that is missing.

        kv_c: uint16 bf16 encodings [N, 512]; k_pe: uint16 [N, 64]; slots: int64 [N]; records: the expected ones [N,
        width].

        Returns:
            The number of padding tokens.

        """
        padding = -len(slots) % self.scenario.pad_to
        block, record = np.divmod(slots, self.scenario.block_size)
        self.expected[block, record] = records
        self._write(
            np.concatenate([kv_c, np.full((padding, 512), PADDING, np.uint16)]),
            np.concatenate([k_pe, np.full((padding, 64), PADDING, np.uint16)]),
            np.concatenate([slots, np.full(padding, -1, np.int64)]),
        )
        return padding

    def dummy(self, tokens: int, seed: int) -> None:
        """Run a warm-up batch: random tokens without a slot, and a gather through a table of zeros."""
        drawn = Random(seed).bytes((tokens, 576, 2)).view("<u2")[..., 0].astype(np.uint16)
        self._write(drawn[:, :512].copy(), drawn[:, 512:].copy(), np.full(tokens, -1, np.int64))
        length = min(self.workspace_rows, self.scenario.block_size)
        self.gather(np.zeros((1, 1), np.int32), (0,), (length,))

    def _write(self, kv_c: Bf16Bits, k_pe: Bf16Bits, slots: npt.NDArray[np.int64]) -> None:
        self.seen = None
        if not self.writes:
            self.memory.write(self.cache, self.expected)
            return
        given = self._placed({"kv_c": kv_c, "k_pe": k_pe, "slot_mapping": slots, "scale": _scale()})
        views = {name: region.view for name, region in given.items()}
        arguments = {**views, "kv_cache": self.cache.view, "kv_cache_dtype": self.kv_cache_dtype}
        self._call(self.target.concat_and_cache_mla, arguments, given)

    def gather(self, block_table: npt.NDArray[np.int32], starts: Sequence[int], lengths: Sequence[int]) -> Bf16Bits:
        """Gather pieces of requests into the workspace from its first row on.

        block_table: int32 [R, columns]; starts, lengths: R numbers of tokens.

        Returns:
            uint16 bf16 encodings [T, 576], T being the sum of lengths.

        """
        ends = np.array([0, *accumulate(lengths)], np.int32)
        count, total = len(lengths), int(ends[-1])
        arrays: dict[str, npt.NDArray[Any]] = {"block_table": block_table}
        if takes_starts(self.judge, self.kv_cache_dtype):
            arrays["seq_starts"] = np.array(starts, np.int32)
        more: dict[str, Any] = {"src_cache": self.cache.view}
        if needed_to_serve(self.kv_cache_dtype) == GATHER_GENERIC:
            arrays |= {"cu_seq_lens": ends, "scale": _scale()}
            arrays["token_to_seq"] = np.repeat(np.arange(count, dtype=np.int32), lengths)
            more |= {"num_tokens": total, "kv_cache_dtype": self.kv_cache_dtype, "dst": self.workspace.view}
        else:
            arrays["workspace_starts"] = ends
            more |= {"batch_size": count, "dst": self.workspace.view[:total]}
        given = self._placed(arrays)
        operator = getattr(self.target, GATHERS[self.kv_cache_dtype][-1])
        self._call(operator, {**{name: region.view for name, region in given.items()}, **more}, given)
        found: Bf16Bits = self.memory.read(replace(self.workspace, view=self.workspace.view[:total]))
        self.rows[:total] = found
        return found

    def records(self, slots: npt.NDArray[np.int64]) -> Records:
        """Return the records in the slots, int64 [N]: [N, width] in the cache's dtype."""
        if self.seen is None:
            self.seen = self.memory.read(self.cache)
        block, record = np.divmod(slots, self.scenario.block_size)
        return self.seen[block, record]

    def finish(self) -> None:
        """Check the whole cache and workspace. Raises Differs if anything but the due records and rows was written."""
        for region, due, name in ((self.cache, self.expected, "kv_cache"), (self.workspace, self.rows, "workspace")):
            wrong = self.memory.read(region) != due
            if wrong.any():
                places = np.argwhere(wrong.any(axis=-1))
                first = ", ".join(str(tuple(int(i) for i in place)) for place in places[:6])
                self._fail(f"at the end {len(places):,} records or rows of {name} changed that were nobody's: {first}")
            if strays := self.memory.strays(region):
                self._fail(f"at the end memory around {name} had changed, elements {strays}")

    def _placed(self, arrays: dict[str, npt.NDArray[Any]]) -> dict[str, Region]:
        poisons = {"kv_c": PADDING, "k_pe": PADDING, "scale": 0}
        return {
            name: self.memory.place(placement(data, _packed(data.shape), poisons.get(name, -1)))
            for name, data in arrays.items()
        }

    def _call(self, operator: Callable[..., None], arguments: dict[str, Any], given: dict[str, Region]) -> None:
        try:
            invoke(self.target, operator, arguments)
            settle(self.target)
        except TargetError as error:
            raise self.judge.crashed(self.scenario, error) from error
        name = next(iter(given))
        seen = look(self.target, given, POISON, output=name)
        if (seen.dst != given[name].placement.data).any() or seen.changed or seen.strays:
            self._fail(f"a call changed its inputs, or what lies around them: {name}, {seen.changed}, {seen.strays}")

    def _fail(self, line: str) -> None:
        raise Differs(self.judge.text("differs", [line, f"scenario {self.scenario.name}, {self.kv_cache_dtype}"]))


def _scale() -> npt.NDArray[np.float32]:
    return np.array([SCALE], np.float32)


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
