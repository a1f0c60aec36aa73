"""Define defects of writers and gathers that batches of context and whole workloads show."""

from __future__ import annotations

from collections.abc import Callable

from conformance.faults import serving_gathers as gathers
from conformance.faults import serving_writers as writers
from conformance.faults.defect import Defect
from conformance.targets.base import GATHER, GATHER_STARTS, WRITE_NVFP4, Target

GATHERING = frozenset({GATHER, GATHER_STARTS})
SERVING = GATHERING | {WRITE_NVFP4}


def _defect(
    clause: int,
    kind: Callable[[], Target],
    name: str,
    sentence: str,
    source: str = "",
    claims: frozenset[str] = GATHERING,
) -> Defect:
    def target() -> Target:
        made = kind()
        made.capabilities = claims  # type: ignore[misc]
        return made

    return Defect(f"serving-{name}", sentence, f"ATTEND-{clause}", "context", target, source)


DEFECTS = (
    _defect(
        1, gathers.IgnoresStarts, "starts-ignored", "a gather reads every chunk from its requests' first tokens on"
    ),
    _defect(
        7,
        gathers.RoundsStartsDown,
        "starts-rounded-down",
        "a gather rounds starts down to blocks, which those of ranks do not lie on",
        "vllm 41229",
    ),
    _defect(1, gathers.LeavesTheLastRowStale, "last-row-stale", "a gather leaves the last of several rows as it was"),
    _defect(
        1,
        gathers.TakesTheNextRequestsTable,
        "next-table-row",
        "a gather reads each request through the next one's table row",
    ),
    _defect(1, gathers.OverwritesItsTable, "table-overwritten", "a gather uses block_table as scratch memory"),
    _defect(
        9, gathers.RemembersTables, "table-remembered", "a gather reads through the block table of the call before"
    ),
    _defect(
        9,
        gathers.KeepsWhatItRead,
        "records-kept",
        "a gather keeps what it read by slot, also when the block is another's",
    ),
    _defect(
        10,
        writers.WrapsPadding,
        "padding-wraps",
        "a writer takes slot -1 for the last record",
        "vllm 43810",
        SERVING,
    ),
    _defect(
        10,
        writers.PadsIntoSlot0,
        "padding-into-slot-0",
        "a writer takes slot -1 for the first record",
        "ATOM 2008",
        SERVING,
    ),
    _defect(
        8,
        writers.SharesAnAmax,
        "amax-of-the-batch",
        "a writer clamps each token by the largest element of its batch",
        claims=SERVING,
    ),
    _defect(
        8,
        writers.DropsTheOddToken,
        "odd-token-dropped",
        "a writer leaves the last of an odd number of tokens",
        claims=SERVING,
    ),
    _defect(
        8,
        writers.WritesWholeBlocks,
        "blocks-cleared",
        "a writer clears the blocks that it writes to",
        claims=SERVING,
    ),
    _defect(
        8,
        writers.ScalesZerosOtherwise,
        "other-scale-of-zeros",
        "a writer gives a block of zeros another scale",
        claims=SERVING,
    ),
    _defect(
        8, writers.OverwritesSlots, "slots-overwritten", "a writer uses slot_mapping as scratch memory", claims=SERVING
    ),
    _defect(
        9,
        writers.WritesBetweenBlocks,
        "between-blocks",
        "a writer writes to the byte behind the first block",
        claims=SERVING,
    ),
)
