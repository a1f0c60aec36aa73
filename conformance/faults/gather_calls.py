"""Define defects of whole gather calls: refusals, memory of earlier calls, and forbidden writes (GATHER-4 to 15)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from conformance.faults import meddlers
from conformance.faults.around import Around, Meddler
from conformance.faults.defect import Defect
from conformance.faults.gathers import NVFP4_GATHER
from conformance.targets.base import Target

OPERATOR = "cp_gather_and_upconvert_nvfp4_kv_cache"


class Registered(Around):
    """Gather correctly, and register the operator under a given schema."""

    def __init__(self, schema: str) -> None:
        """Set the schema; `schema` is the part after batch_size, without the closing parenthesis."""
        super().__init__(lambda proceed, call: proceed(call), NVFP4_GATHER)
        first = "Tensor src_cache, Tensor(a!) dst, Tensor block_table, Tensor workspace_starts, int batch_size"
        self.schemas = {OPERATOR: f"{OPERATOR}({first}, {schema}) -> ()"}


def _around(name: str, sentence: str, clause: str, make: Callable[[], Meddler], source: str = "") -> Defect:
    def target() -> Target:
        return Around(make(), NVFP4_GATHER)

    return Defect(name, sentence, clause, "gather", target, source)


def _stateless(name: str, sentence: str, clause: str, meddler: Meddler, source: str = "") -> Defect:
    return _around(name, sentence, clause, lambda: meddler, source)


DEFECTS = (
    _stateless(
        "length-taken-for-r",
        "the entries of workspace_starts taken for the requests, however many there are to be",
        "GATHER-4",
        meddlers.length_taken_for_r,
    ),
    _stateless("column-576-written", "one column after 576 written", "GATHER-6", meddlers.column_576_written),
    _stateless("row-after-t-written", "one row after T written", "GATHER-6", meddlers.row_after_t_written),
    _stateless(
        "tile-of-4-completed", "rows after T written, up to a multiple of 4", "GATHER-6", meddlers.tile_completed
    ),
    _stateless(
        "table-repaired-in-place",
        "negative entries of block_table set to 0",
        "GATHER-7",
        meddlers.table_repaired_in_place,
    ),
    _stateless(
        "counter-in-the-cache", "the first byte of src_cache changed", "GATHER-7", meddlers.counter_in_the_cache
    ),
    _stateless("row-stride-ignored", "the row stride of dst taken as 576", "GATHER-8", meddlers.row_stride_ignored),
    _stateless(
        "every-stride-heeded",
        "a stride that is never used refused",
        "GATHER-8",
        meddlers.every_stride_heeded,
    ),
    _stateless(
        "dst-offset-in-32-bits", "the byte offset in dst cut to 32 bits", "GATHER-9", meddlers.dst_offset_in_32_bits
    ),
    _stateless("no-rows-is-an-error", "an empty grid launched for T = 0", "GATHER-10", meddlers.no_rows_is_an_error),
    _stateless(
        "no-requests-is-an-error", "an empty grid launched for R = 0", "GATHER-10", meddlers.no_requests_is_an_error
    ),
    _stateless(
        "rows-without-requests-zeroed",
        "rows set to 0 for R = 0",
        "GATHER-10",
        meddlers.rows_without_requests_zeroed,
    ),
    _stateless("nothing-refused", "malformed calls accepted", "GATHER-11", meddlers.nothing_refused),
    _stateless(
        "refused-without-a-name", "malformed calls refused without a name", "GATHER-11", meddlers.refused_without_a_name
    ),
    _stateless("refused-too-late", "malformed calls refused after a write", "GATHER-11", meddlers.refused_too_late),
    _stateless(
        "types-taken-for-granted",
        "integers of another width accepted",
        "GATHER-11",
        meddlers.types_taken_for_granted,
    ),
    _stateless(
        "batch-size-unchecked",
        "a batch_size above the entries of workspace_starts accepted",
        "GATHER-11",
        meddlers.batch_size_unchecked,
    ),
    _stateless(
        "stores-of-whole-16-bytes",
        "rows written from the multiple of 16 bytes below on",
        "GATHER-12",
        meddlers.misaligned_dst_rounded_down,
    ),
    *(
        _around(
            f"{slug}-remembered",
            f"what {name} held at the first call used at each",
            "GATHER-14",
            partial(meddlers.Remembers, name),
        )
        for name, slug in (("src_cache", "cache"), ("block_table", "table"), ("seq_starts", "starts"))
    ),
    _around(
        "starts-kept",
        "without seq_starts those of the last call used",
        "GATHER-3",
        meddlers.KeepsStarts,
    ),
    *(
        Defect(name, sentence, "GATHER-15", "gather", partial(Registered, schema))
        for name, sentence, schema in (
            ("starts-without-a-default", "seq_starts registered without a default", "Tensor? seq_starts"),
            ("starts-not-last", "seq_starts not the last argument", "Tensor? seq_starts=None, int flags=0"),
            ("starts-not-optional", "seq_starts registered as one that has to be a tensor", "Tensor seq_starts"),
        )
    ),
)
