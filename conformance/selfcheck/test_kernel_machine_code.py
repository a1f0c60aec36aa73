"""What the compilers made of the kernels for each architecture: read in the machine code, so that no GPU is needed."""

from pathlib import Path

import pytest

from conformance.selfcheck import machine_code as reader
from conformance.selfcheck.machine_code import disassemble, machine_code
from kernels import cross
from kernels.cache import BuildError
from kernels.catalog import GATHERS, KERNELS
from kernels.generic_catalog import GENERIC_GATHERS
from kernels.merge_catalog import MERGES
from kernels.sources import changed_sources

pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")

BLACKWELL = ("sm_100a", "sm_103a", "sm_120a")
ARCHITECTURES = ("sm_90", *BLACKWELL)
TUNED = KERNELS["tuned"]

# Each kernel with the widths in bytes of its loads and of its stores.
WIDTHS = {
    "plain": (GATHERS["plain"], {1, 4}, {4}),
    "tuned": (GATHERS["tuned"], {4, 8}, {16}),
    "fp8_ds_mla": (GATHERS["fp8_ds_mla"], {2, 4}, {4}),
    "generic auto": (GENERIC_GATHERS["auto"], {4}, {4}),
    "generic fp8": (GENERIC_GATHERS["fp8"], {2, 4}, {4}),
    "merge bf16": (MERGES["bfloat16"], {2, 4}, {2, 4}),
    "merge f16": (MERGES["float16"], {2, 4}, {2, 4}),
    "merge f32": (MERGES["float32"], {4}, {4}),
}


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", WIDTHS)
def test_a_kernel_uses_no_local_memory_and_loads_and_stores_in_its_widths(name: str, arch: str) -> None:
    kernel, loads, stores = WIDTHS[name]
    machine = machine_code(arch, kernel)
    assert machine.kernels == [kernel.symbol]
    assert machine.local_memory() == []
    assert machine.memory_instructions == {"LDG", "STG"}
    assert (set(machine.widths("LDG")), set(machine.widths("STG"))) == (loads, stores)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_tuned_kernel_stores_a_warps_rows_in_nine_pieces_and_loads_scales_and_rope_keys_in_eights(
    arch: str,
) -> None:
    machine = machine_code(arch, TUNED)
    assert machine.widths("STG") == {16: 2 * TUNED.rows_of_warp + 1}
    assert machine.widths("LDG")[8] == TUNED.rows_of_warp + 1


@pytest.mark.parametrize("arch", BLACKWELL)
def test_the_only_loops_of_the_tuned_kernel_are_the_searches_of_its_rows(arch: str) -> None:
    assert machine_code(arch, TUNED).loops == TUNED.rows_of_warp


@pytest.mark.parametrize("arch", BLACKWELL)
def test_the_plain_kernel_converts_e2m1_by_the_native_instruction_where_there_is_one(arch: str) -> None:
    assert "F2FP.F16.E2M1.UNPACK_B" in machine_code(arch, KERNELS["plain"]).conversions


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_the_plain_kernel_does_without_the_native_e2m1_conversion_elsewhere(arch: str) -> None:
    assert not [opcode for opcode in machine_code(arch, KERNELS["plain"]).conversions if "E2M1" in opcode]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_tuned_kernel_converts_by_ordinary_arithmetic(arch: str) -> None:
    assert machine_code(arch, TUNED).conversions == set()


@pytest.mark.parametrize("kernel", GATHERS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_byte_that_cupy_leaves_out_of_a_cubin_is_restored(arch: str, kernel: str) -> None:
    image = cross.recipe(arch, None, kernel).cached().read_bytes()
    assert image == cross.restore_last_byte(image[:-1])


KERNEL = 'extern "C" __global__ void'
STORE = "__stcs(row, scaled(codes[i][0], __byte_perm(pair, pair, 0x1010)));"

# Changes of the tuned kernel that make it use local memory. A kernel has either bound of its registers.
LOCAL_MEMORY = {
    "an array": ("scaled(codes[i][0],", "scaled(codes[args.num_requests & i][0],"),
    "spills": (KERNEL, f"#undef __launch_bounds__\n#define __launch_bounds__(...)\n{KERNEL} __maxnreg__(24)"),
}

# Changes that make it load or store less at once, with a width that shows it. The compiler makes ordinary stores of
# neighbours one again.
NARROWER = {
    "stores in halves": (
        "STG",
        8,
        STORE,
        """const uint4 whole = scaled(codes[i][0], __byte_perm(pair, pair, 0x1010));
        volatile unsigned long long* halves = reinterpret_cast<volatile unsigned long long*>(row);
        halves[0] = whole.y * (1ull << 32) + whole.x;
        halves[1] = whole.w * (1ull << 32) + whole.z;""",
    ),
    "loads of bytes": ("LDG", 1, "codes[i][0] = words[0];", "codes[i][0] = *(char*)words;"),
}


@pytest.mark.parametrize(("arch", "change"), [("sm_90", "an array"), ("sm_120a", "spills")])
def test_local_memory_is_noticed_in_the_code_and_beside_it(tmp_path: Path, arch: str, change: str) -> None:
    root = changed_sources(tmp_path, TUNED.source, LOCAL_MEMORY[change])
    machine = machine_code(arch, TUNED, root)
    assert any(notice.startswith("LDL") for notice in machine.local_memory())
    assert any(notice.startswith("nvfp4_gather_tuned: ") for notice in machine.local_memory())
    assert "LDL" in machine.memory_instructions


@pytest.mark.parametrize(("arch", "change"), [("sm_90", "loads of bytes"), ("sm_120a", "stores in halves")])
def test_narrower_loads_and_stores_are_noticed(tmp_path: Path, arch: str, change: str) -> None:
    family, width, old, new = NARROWER[change]
    root = changed_sources(tmp_path, TUNED.source, (old, new))
    assert width in machine_code(arch, TUNED, root).widths(family)


def test_a_loop_that_lanes_leave_at_different_times_is_noticed(tmp_path: Path) -> None:
    search = "Position position = find(args, first, 0);"
    steps = "int steps = 0; for (unsigned n = lane; n > 1; ++steps) n = n % 2 == 1 ? 3 * n + 1 : n / 2;"
    root = changed_sources(tmp_path, TUNED.source, (search, f"{steps} if (steps == 1000) return; {search}"))
    assert machine_code("sm_120a", TUNED, root).loops == TUNED.rows_of_warp + 1


def test_a_missing_disassembler_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(pytest.skip.Exception, match="pip install nvidia-cuda-nvdisasm"):
        disassemble(b"no cubin")


@pytest.mark.skipif(reader.nvdisasm() is None, reason="nvdisasm not found")
def test_what_nvdisasm_refuses_is_reported_in_the_first_line() -> None:
    with pytest.raises(BuildError, match=r"^\S*nvdisasm refuses the cubin: nvdisasm fatal"):
        disassemble(b"no cubin")
