"""The lanes of a warp load and store side by side: the traced accesses of each kernel, and of changed copies."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from conformance.selfcheck.test_kernel_generic import generic_call
from conformance.selfcheck.test_kernel_merge import merge_call
from conformance.selfcheck.warp_trace import LANES, Trace
from kernels.catalog import GATHERS, KERNELS
from kernels.generic_catalog import GENERIC_GATHERS
from kernels.merge_catalog import MERGES
from kernels.ops import Operators
from kernels.sources import changed_sources

ROWS = KERNELS["tuned"].rows_of_warp
WARPS = 8  # of the tuned kernel
TUNED = "cuda/nvfp4_gather_tuned.cu"
PLAIN = "cuda/nvfp4_gather_plain.cu"


def gather_call(record_bytes: int = 352) -> dict[str, Any]:
    """16 requests, so many that the tuned kernel's search takes more than a round. Both kernels' warps are full."""
    return {
        "src_cache": np.zeros((8, 4, record_bytes), np.uint8),
        "dst": np.zeros((WARPS * ROWS, 576), np.uint16),
        "block_table": np.arange(32, dtype=np.int32).reshape(16, 2) % 8,
        "workspace_starts": np.arange(0, 32, 2, dtype=np.int32),
        "batch_size": 16,
        "seq_starts": np.arange(16, dtype=np.int32) % 4,
    }


def gather(kernel: str = "tuned", root: Path | None = None) -> tuple[Trace, dict[str, Any]]:
    call = gather_call()
    return Trace(Operators(root, kernel).cp_gather_and_upconvert_nvfp4_kv_cache, call), call


# A warp of the tuned kernel: the halves of each row's latent, its scales, and once the RoPE keys of all rows.
TUNED_LOADS = {"1 x 128": 2 * ROWS, "1 x 32": ROWS, f"{ROWS} x 64": 1}
TUNED_STORES = {"1 x 512": 2 * ROWS, f"{ROWS} x 128": 1}
PLAIN_STORES = {"1 x 128": 9}


def faults_of_tuned(root: Path | None = None) -> list[str]:
    """Return the names of the arrays that a warp of the tuned kernel loads from or stores to otherwise."""
    trace, call = gather("tuned", root)
    searched = ("workspace_starts", "seq_starts", "block_table")
    faults = [name for name in searched if any(set(warp) != {"1 x 4"} for warp in trace.loads(call[name]))]
    if trace.loads(call["src_cache"], 8) != [TUNED_LOADS] * WARPS:
        faults.append("src_cache")
    if trace.stores(call["dst"], 16) != [TUNED_STORES] * WARPS:
        faults.append("dst")
    return faults


def test_a_warp_of_the_tuned_kernel_covers_whole_stretches_and_all_its_lanes_search_alike() -> None:
    assert faults_of_tuned() == []


def test_a_warp_of_the_plain_kernel_stores_four_bytes_a_lane_side_by_side() -> None:
    trace, call = gather("plain")
    assert trace.stores(call["dst"], 4) == [PLAIN_STORES] * len(call["dst"])


def test_a_warp_of_the_gather_of_fp8_ds_mla_stores_four_bytes_a_lane_side_by_side() -> None:
    call = gather_call(656)
    trace = Trace(Operators().cp_gather_and_upconvert_fp8_kv_cache, call)
    assert trace.stores(call["dst"], 4) == [PLAIN_STORES] * len(call["dst"])


@pytest.mark.parametrize("dtype", GENERIC_GATHERS)
def test_a_warp_of_a_generic_gather_stores_four_bytes_a_lane_side_by_side(dtype: str) -> None:
    call = generic_call(dtype)
    trace = Trace(Operators().gather_and_maybe_dequant_cache, call)
    assert trace.stores(call["dst"], 4) == [PLAIN_STORES] * call["num_tokens"]


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32])
def test_a_warp_of_the_merge_stores_an_element_a_lane_side_by_side_and_one_lse(dtype: Any) -> None:
    call, size = merge_call(dtype, (3, 2, 3 * LANES)), np.dtype(dtype).itemsize
    trace = Trace(Operators().merge_attn_states, call)
    assert trace.stores(call["output"], size) == [{f"1 x {LANES * size}": 3}] * 6
    assert trace.stores(call["output_lse"], 4) == [{"1 x 4": 1}] * 6


def test_every_kernel_is_launched_with_a_warp_in_x() -> None:
    assert {kernel.block[0] for kernel in (*GATHERS.values(), *GENERIC_GATHERS.values(), *MERGES.values())} == {LANES}


FIND = "find(args, first, 0);"
# Changes of the tuned kernel that leave its bits right, and the arrays that show them.
SLOW = {
    "a lane takes neighbours": (
        ["src_cache", "dst"],
        [
            ("+ lane;\n        codes[i][0]", "+ 2 * lane;\n        codes[i][0]"),
            ("words[kLanes]", "words[1]"),
            ("lane / (kScaleBlock / kCodesOfWord)", "lane"),
            ("0x4000u + 0x1010u", "0x1010u"),
            ("0x3232", "0x1010"),
            ("args.dst_row_stride) + lane;", "args.dst_row_stride) + 2 * lane;"),
            ("row + kLanes", "row + 1"),
        ],
    ),
    "a lane searches from a start of its own": (
        ["workspace_starts"],
        [(FIND, "find(args, first, args.workspace_starts[lane % 16] <= first ? lane % 16 + 1 : 0);")],
    ),
}
LOOP = "for (int byte = lane; byte < kLatentBytes; byte += lanes) {"
STRIDED = {
    "a lane takes 8 bytes": "for (int byte = lane * 8; byte < lane * 8 + 8; ++byte) {",
    "bytes transposed": f"{LOOP.replace('byte', 'i')} const int byte = i % 32 * 8 + i / 32;",
}


@pytest.mark.parametrize("name", SLOW)
def test_lanes_of_the_tuned_kernel_that_lie_apart_are_noticed(name: str, tmp_path: Path) -> None:
    shown, changes = SLOW[name]
    assert faults_of_tuned(changed_sources(tmp_path, TUNED, *changes)) == shown


@pytest.mark.parametrize("name", STRIDED)
def test_lanes_of_the_plain_kernel_that_lie_apart_are_noticed(name: str, tmp_path: Path) -> None:
    trace, call = gather("plain", changed_sources(tmp_path, PLAIN, (LOOP, STRIDED[name])))
    assert trace.stores(call["dst"], 4) == [{"32 x 4": 8, "1 x 128": 1}] * len(call["dst"])


def test_lanes_may_share_out_a_stretch_in_any_order(tmp_path: Path) -> None:
    words = "kLatentOffset) + lane;"
    root = changed_sources(tmp_path, TUNED, (words, words.replace("lane", "(lane ^ 5)")))
    assert faults_of_tuned(root) == []
