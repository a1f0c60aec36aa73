"""False alarms: gathers that are right but different pass the gate, none of which does with a line of it wrong."""

from types import ModuleType
from typing import NamedTuple

import pytest

from conformance.calls import good_call
from conformance.cases import Named, cases_of, records_above_two_gib, requests_without_rows, rows_of
from conformance.faults.defect import PARTS
from conformance.generation import Geometry, realize
from conformance.judge import Judge
from conformance.records import uniform_fields
from conformance.selfcheck import right_gathers
from conformance.selfcheck.right_gathers import BUILDS, STORES, BitArithmetic, RightGather
from conformance.selfcheck.running import ROOT, gate
from conformance.verdict import Differs
from fixtures.cases import GatherCase

CHOSEN = "broke_real or each_byte or zeros or nan_scale or every_cut"
LARGEST = "two_gib or every_position or random_batches or -64-"


@pytest.mark.parametrize(
    ("kinds", "parts", "chosen"),
    [
        pytest.param(
            BUILDS,
            PARTS["gather"],
            f"packed_cache or not ({LARGEST})",
            id="builds, all but the largest cases",
            marks=pytest.mark.nightly,
        ),
        pytest.param(BUILDS, ("geometry", "read"), CHOSEN, id="builds, what broke real kernels and each byte"),
        pytest.param((BitArithmetic,), ("read",), "every_position", id="one build, every triple of bytes"),
        pytest.param(STORES, ("calls", "memory", "read"), f"not ({LARGEST})", id="orders of writing"),
    ],
)
def test_a_gather_that_is_right_in_another_way_conforms(
    kinds: tuple[type[RightGather], ...], parts: tuple[str, ...], chosen: str
) -> None:
    modules = [f"conformance/gate/test_{part}.py" for part in parts]
    targets = [argument for kind in kinds for argument in ("--target", f"{kind.__module__}:{kind.__name__}")]
    done = gate(*modules, *targets, "-k", chosen)
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.count("\n  conforms: ") == len(kinds)


def nan_scales() -> GatherCase:
    return rows_of(uniform_fields([0x00, 0x7F, 0xFF]), "")


def least_scales() -> GatherCase:
    return rows_of(uniform_fields([0x01, 0x07, 0x08]), "")


def shared_blocks() -> GatherCase:
    return realize(Geometry(4, (6, 6), (3, 1), table="shared"), 5)


def a_ragged_tile() -> GatherCase:
    return realize(Geometry(4, (7,), (3,)), 5)


class Broken(NamedTuple):
    """A line of right_gathers, what it becomes, and a case of the gate's kind that sees it."""

    kind: str
    old: str
    new: str
    case: Named


BROKEN = {
    "the rows of a page taken for neighbours": Broken(
        "PageParallel",
        "dst[rows] = page[slot[rows]]",
        "dst[rows[0] : rows[0] + len(rows)] = page[slot[rows]]",
        shared_blocks,
    ),
    "a row that starts a request left to the one before": Broken(
        "RowParallel", "bisect_right(row_of, row) - 1", "bisect_right(row_of, row - 1) - 1", requests_without_rows
    ),
    "an address of 32 bits": Broken(
        "RowParallel",
        "base + block * strides[0] + token % block_size * strides[1]",
        "base + (block * strides[0] + token % block_size * strides[1]) % 2**32",
        lambda: records_above_two_gib()[1],
    ),
    "a start rounded down to its block": Broken(
        "CopiedBlocks",
        "token, block_size = np.arange(len(dst)) + (first - starts)[request], src_cache.shape[1]",
        "token, block_size = np.arange(len(dst)) + (first // 4 * 4 - starts)[request], src_cache.shape[1]",
        good_call,
    ),
    "subnormal scales read as half of what they are": Broken(
        "BitArithmetic", "np.maximum(scales >> 3 & 15, 1)", "(scales >> 3 & 15)", least_scales
    ),
    "a NaN without payload, which is an infinity": Broken("AnyNan", "1 + number % 127", "number % 128", nan_scales),
    "NaN of any kind, but declared canonical": Broken(
        "AnyNan", '"canonical", "any"] = "any"', '"canonical", "any"] = "canonical"', nan_scales
    ),
    "the last, ragged tile left out": Broken(
        "InTiles", "range(len(dst), 0, -3)", "range(len(dst) // 3 * 3, 0, -3)", a_ragged_tile
    ),
    "the second of two writes left out": Broken(
        "WrittenTwice", "dst[:] = ~rows\n        dst[:] = rows", "dst[:] = ~rows", good_call
    ),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_gather_with_one_line_broken_does_not_conform(broken: Broken) -> None:
    for case in cases_of(broken.case):
        Judge(getattr(right_gathers, broken.kind)())(case)
    with pytest.raises(Differs):
        for case in cases_of(broken.case):
            Judge(kind_of(broken)())(case)


def kind_of(broken: Broken) -> type[RightGather]:
    """The class as its module has it with that line changed."""
    source = (ROOT / "conformance/selfcheck/right_gathers.py").read_text()
    assert source.count(broken.old) == 1
    module = ModuleType("broken")
    exec(source.replace(broken.old, broken.new), vars(module))
    kind: type[RightGather] = getattr(module, broken.kind)
    return kind
