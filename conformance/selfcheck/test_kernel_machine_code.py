"""What the compilers made of the kernels for each architecture: read in the machine code, so that no GPU is needed."""

import re
from pathlib import Path

import pytest

from conformance.selfcheck.machine_code import MachineCode, changed, compiled, machine_code, skip_without_nvdisasm
from kernels import cross
from kernels.cache import BuildError
from kernels.catalog import GATHERS, KERNELS
from kernels.disassembly import MissingDisassembler, disassemble, nvdisasm
from kernels.generic_catalog import GENERIC_GATHERS
from kernels.kernel import Kernel
from kernels.merge_catalog import MERGES

pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")

BLACKWELL = ("sm_100a", "sm_103a", "sm_120a")
ARCHITECTURES = ("sm_90", *BLACKWELL)
ROWS = KERNELS["tuned"].rows_of_warp

# What a warp of the tuned kernel loads and stores, how many times; what is the same for all lanes is left out.
TUNED_LOADS = {
    "4-byte load of 128 bytes": 2 * ROWS,  # half of a latent
    "8-byte load of 32 bytes": ROWS,  # scales
    f"8-byte load of {ROWS} x 64 bytes": 1,  # the RoPE keys of all rows
}
TUNED_STORES = {
    "16-byte store of 512 bytes": 2 * ROWS,
    f"16-byte store of {ROWS} x 128 bytes": 1,
}

# What a warp of these kernels stores at once.
ROWS_OF_WARPS = {
    "generic auto": (GENERIC_GATHERS["auto"], {"4-byte store of 128 bytes"}),
    "generic fp8": (GENERIC_GATHERS["fp8"], {"4-byte store of 128 bytes"}),
    "merge bf16": (MERGES["bfloat16"], {"2-byte store of 64 bytes", "4-byte store of 4 bytes"}),
    "merge f16": (MERGES["float16"], {"2-byte store of 64 bytes", "4-byte store of 4 bytes"}),
    "merge f32": (MERGES["float32"], {"4-byte store of 128 bytes", "4-byte store of 4 bytes"}),
}


@pytest.mark.parametrize("kernel", GATHERS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_kernel_compiles_for_every_architecture_without_a_gpu(arch: str, kernel: str) -> None:
    built = compiled(arch, kernel)
    assert list(built.registers) == [GATHERS[kernel].symbol]
    assert built.image == cross.restore_last_byte(built.image[:-1])


@pytest.mark.parametrize("kernel", GATHERS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_no_kernel_uses_local_memory(arch: str, kernel: str) -> None:
    assert machine_code(arch, kernel).local_memory() == []


@pytest.mark.parametrize("kernel", GATHERS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_no_kernel_touches_memory_but_by_loads_and_stores_that_are_followed_here(arch: str, kernel: str) -> None:
    assert touching_memory(machine_code(arch, kernel)) == {"LDG", "STG"}


def touching_memory(machine: MachineCode) -> set[str]:
    touching = re.compile("LD(?!C)|ST|ATOM|RED|CCTL|U(BLK|TMA|RED)")
    return {line.name for line in machine.code if touching.match(line.name)}


@pytest.mark.parametrize(("kernel", "stores"), ROWS_OF_WARPS.values(), ids=ROWS_OF_WARPS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_generic_gathers_and_merges_compile_for_every_architecture_and_store_side_by_side(
    arch: str, kernel: Kernel, stores: set[str]
) -> None:
    machine = machine_code(arch, kernel)
    assert list(machine.image.registers) == [kernel.symbol]
    assert machine.local_memory() == []
    assert touching_memory(machine) == {"LDG", "STG"}
    found = machine.patterns("store")
    assert found.pop("4-byte store somewhere", 0) <= 4  # the second part of an unrolled loop, as below
    assert set(found) == stores


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_warp_of_the_tuned_kernel_loads_whole_stretches_of_the_records(arch: str) -> None:
    assert machine_code(arch, "tuned").patterns("load") == TUNED_LOADS


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_warp_of_the_tuned_kernel_stores_whole_stretches_sixteen_bytes_a_lane(arch: str) -> None:
    assert machine_code(arch, "tuned").patterns("store") == TUNED_STORES


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_lanes_of_the_tuned_kernel_never_part(arch: str) -> None:
    assert [str(access.instruction) for access in machine_code(arch, "tuned").accesses if access.parted] == []


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_warp_of_the_plain_kernel_stores_four_bytes_a_lane_side_by_side(arch: str) -> None:
    stores = machine_code(arch, "plain").patterns("store")
    # Where the second part of an unrolled loop goes on is the result of a division, which is not followed.
    assert stores.pop("4-byte store somewhere", 0) <= 4
    assert set(stores) == {"4-byte store of 128 bytes"}
    assert sum(stores.values()) >= 2


@pytest.mark.parametrize("arch", BLACKWELL)
def test_the_plain_kernel_converts_e2m1_by_the_native_instruction_where_there_is_one(arch: str) -> None:
    assert "F2FP.F16.E2M1.UNPACK_B" in machine_code(arch, "plain").conversions()


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_the_plain_kernel_does_without_the_native_e2m1_conversion_elsewhere(arch: str) -> None:
    assert not [opcode for opcode in machine_code(arch, "plain").conversions() if "E2M1" in opcode]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_tuned_kernel_converts_by_ordinary_arithmetic(arch: str) -> None:
    assert machine_code(arch, "tuned").conversions() == set()


KERNEL = 'extern "C" __global__ void'
# A kernel has either bound.
FEW_REGISTERS = f"""#undef __launch_bounds__
#define __launch_bounds__(...)
{KERNEL} __maxnreg__(24)"""

# A change of the tuned kernel that makes it use local memory.
LOCAL_MEMORY = {
    "an array": ("scaled(codes[i][0],", "scaled(codes[args.num_requests & i][0],"),
    "spills": (KERNEL, FEW_REGISTERS),
}


@pytest.mark.parametrize("arch", ["sm_90", "sm_120a"])
@pytest.mark.parametrize("change", LOCAL_MEMORY)
def test_local_memory_is_noticed_in_the_code_and_beside_it(tmp_path: Path, arch: str, change: str) -> None:
    notices = machine_code(arch, "tuned", changed(tmp_path, "tuned", *LOCAL_MEMORY[change])).local_memory()
    assert any("LDL" in notice for notice in notices)
    assert any(notice.startswith("nvfp4_gather_tuned: ") for notice in notices)


STORE = "__stcs(row, scaled(codes[i][0], __byte_perm(pair, pair, 0x1010)));"
# Ordinary stores of neighbours are made one again by the compiler.
STORE_IN_HALVES = """const uint4 whole = scaled(codes[i][0], __byte_perm(pair, pair, 0x1010));
        volatile unsigned long long* halves = reinterpret_cast<volatile unsigned long long*>(row);
        halves[0] = whole.y * (1ull << 32) + whole.x;
        halves[1] = whole.w * (1ull << 32) + whole.z;"""
ROW = "args.dst_row_stride) + lane;"
WORDS = "kLatentOffset) + lane;"
FIRST = "first = warp * kRowsOfWarp;"

# A change of the tuned kernel, and what shows it.
GAPS = {
    "stores in halves": (STORE, STORE_IN_HALVES, "8-byte store of 32 x 8 bytes"),
    "stores with gaps": (ROW, ROW.replace("lane", "lane * 2"), "16-byte store of 32 x 16 bytes"),
    "stores over each other": (ROW, ROW.replace("lane", "lane / 2"), "16-byte store of 256 bytes"),
    "RoPE stores with gaps": ("(rope_key) + lane %", "(rope_key) + 2 * lane %", "16-byte store of 16 x 16 bytes"),
    "loads with gaps": (WORDS, WORDS.replace("lane", "lane * 2"), "4-byte load of 32 x 4 bytes"),
    "loads of bytes": ("codes[i][0] = words[0];", "codes[i][0] = *(char*)words;", "1-byte load of 32 x 1 bytes"),
    "a row for each lane": (FIRST, FIRST.replace(";", " + lane;"), "4-byte load somewhere"),
}


@pytest.mark.parametrize("arch", ["sm_90", "sm_120a"])
@pytest.mark.parametrize("gaps", GAPS)
def test_lanes_that_do_not_cover_a_stretch_are_noticed(tmp_path: Path, arch: str, gaps: str) -> None:
    old, new, pattern = GAPS[gaps]
    machine = machine_code(arch, "tuned", changed(tmp_path, "tuned", old, new))
    patterns = machine.patterns("load") | machine.patterns("store")
    assert patterns != TUNED_LOADS | TUNED_STORES
    assert pattern in patterns


def test_lanes_may_share_out_a_stretch_in_any_order(tmp_path: Path) -> None:
    root = changed(tmp_path, "tuned", WORDS, WORDS.replace("lane", "(lane ^ 5)"))
    assert machine_code("sm_90", "tuned", root).patterns("load") == TUNED_LOADS


def test_lanes_that_part_are_noticed(tmp_path: Path) -> None:
    parting = "int i = lane; while (args.seq_starts[i] < 0) ++i; if (first + i >= args.num_rows) return;"
    root = changed(tmp_path, "tuned", "if (first >= args.num_rows) return;", parting)
    assert any(access.parted for access in machine_code("sm_90", "tuned", root).accesses)


def test_a_missing_disassembler_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDisassembler, match="pip install nvidia-cuda-nvdisasm"):
        nvdisasm()


def test_what_nvdisasm_refuses_is_reported_in_the_first_line() -> None:
    skip_without_nvdisasm()
    with pytest.raises(BuildError, match=r"^\S*nvdisasm refuses the cubin: nvdisasm fatal"):
        disassemble(b"no cubin")
