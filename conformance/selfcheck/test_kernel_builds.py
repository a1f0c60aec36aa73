"""How the kernels get built: the cache, the headers, the compilers' own words, and architectures that are not here."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conformance.selfcheck.by_hand import record, well_formed
from kernels import cross, cuda_build, headers, host_build, scalars, sources
from kernels.cache import BuildError
from kernels.ops import Operators

GATHER = "host/nvfp4_gather.cpp"


@pytest.fixture
def copied_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sources root to change, and an empty cache."""
    monkeypatch.setenv("NVFP4_MLA_CACHE", str(tmp_path / "cache"))
    return sources.copy_sources(tmp_path / "sources")


def test_a_second_build_of_the_same_sources_runs_no_compiler(
    copied_sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = host_build.build(GATHER, copied_sources)
    monkeypatch.setattr(host_build, "_compile", lambda command, source: pytest.fail("compiled again"))
    assert host_build.build(GATHER, copied_sources).path == first.path
    assert host_build.build(GATHER).path == first.path


def test_a_changed_header_is_a_new_build_and_shows_in_the_result(copied_sources: Path) -> None:
    header = copied_sources / "cuda" / "nvfp4_record.cuh"
    header.write_text(header.read_text().replace("8 * (block & 3) + (block >> 2)", "block"))
    call = well_formed()
    call["src_cache"][:] = record(0x22, 0x38, 0x00)
    call["src_cache"][2, 0, 329] = 0x40
    Operators(copied_sources, "plain").cp_gather_and_upconvert_nvfp4_kv_cache(**call)
    assert np.flatnonzero(call["dst"][0] == 0x4000).tolist() == list(range(16 * 9, 16 * 10))


def test_every_file_beside_the_sources_makes_a_new_build(copied_sources: Path) -> None:
    before = sources.sources_sha256(copied_sources)
    (copied_sources / "cuda" / "included.h").write_text("// whatever its name ends in\n")
    assert sources.sources_sha256(copied_sources) != before


def test_a_layout_whose_parts_do_not_abut_is_no_build(copied_sources: Path) -> None:
    header = copied_sources / "cuda" / "nvfp4_record.cuh"
    header.write_text(header.read_text().replace("kRopeOffset = NVFP4_ROPE_OFFSET", "kRopeOffset = 255"))
    with pytest.raises(BuildError, match="the RoPE key follows the latent"):
        Operators(copied_sources).cp_gather_and_upconvert_nvfp4_kv_cache(**well_formed())


def test_a_build_error_says_in_its_first_line_what_the_compiler_said(copied_sources: Path) -> None:
    (copied_sources / "host" / "nvfp4_gather.cpp").write_text("int nonsense = nowhere;\n")
    with pytest.raises(BuildError) as caught:
        Operators(copied_sources).cp_gather_and_upconvert_nvfp4_kv_cache(**well_formed())
    first = str(caught.value).splitlines()[0]
    assert "cannot build" in first
    assert "nvfp4_gather.cpp:1" in first
    assert "nowhere" in first


def test_a_missing_compiler_is_named(copied_sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(BuildError, match=r"^cannot run the C\+\+ compiler /no/such/compiler"):
        Operators(copied_sources).cp_gather_and_upconvert_nvfp4_kv_cache(**well_formed())


def test_many_processes_may_build_at_once(copied_sources: Path) -> None:
    program = "from kernels import host_build; print(host_build.build('host/scalars.cpp').path)"
    command = [sys.executable, "-c", program]
    running = [subprocess.Popen(command, cwd=sources.DEFAULT_ROOT.parent, stdout=subprocess.PIPE) for _ in range(4)]
    paths = {process.communicate()[0].strip() for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert paths == {str(path).encode() for path in (copied_sources.parent / "cache").glob("*.so")}


def test_a_folder_without_kernel_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="it has no cuda/ in it"):
        Operators(tmp_path).cp_gather_and_upconvert_nvfp4_kv_cache(**well_formed())


def test_missing_headers_are_named_with_the_packages_that_bring_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NVFP4_MLA_CUDA_INCLUDE", raising=False)
    monkeypatch.setattr(headers, "_from_pip", lambda cuda_major: [])
    with pytest.raises(
        headers.MissingHeaders, match="pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl"
    ):
        headers.host_include_dirs()


def test_a_chosen_include_folder_comes_before_those_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cuda_fp4.h").touch()
    monkeypatch.setenv("NVFP4_MLA_CUDA_INCLUDE", str(tmp_path))
    assert headers.host_include_dirs()[0] == tmp_path
    assert len(headers.host_include_dirs()) > 1


def test_the_conversions_of_the_headers_round_saturate_and_name_nan() -> None:
    hard = np.array([0.25, 5.0, -0.0, np.inf, np.nan, 464.0], np.float32)
    assert scalars.f32_to_e2m1(hard).tolist() == [0x0, 0x6, 0x8, 0x7, 0x7, 0x7]
    assert scalars.f32_to_e4m3(hard).tolist() == [0x28, 0x4A, 0x80, 0x7E, 0x7F, 0x7E]
    assert scalars.f32_to_bf16(hard).tolist() == [0x3E80, 0x40A0, 0x8000, 0x7F80, 0x7FFF, 0x43E8]
    assert scalars.e2m1_to_f32(np.arange(8, dtype=np.uint8)).tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    assert scalars.e4m3_to_f32(np.array([0x01, 0x38, 0xFE], np.uint8)).tolist() == [2**-9, 1.0, -448.0]


@pytest.mark.parametrize(
    ("capability", "arch"),
    [("80", "sm_80"), ("90", "sm_90"), ("100", "sm_100a"), ("103", "sm_103a"), ("120", "sm_120a")],
)
def test_a_blackwell_device_gets_a_build_with_its_own_instructions(capability: str, arch: str) -> None:
    assert cuda_build.arch_of(capability) == arch


def test_what_nvrtc_refuses_is_reported_in_the_first_line(copied_sources: Path) -> None:
    pytest.importorskip("cupy", reason="NVRTC is reached through CuPy")
    (copied_sources / "cuda" / "nvfp4_gather_tuned.cu").write_text("__device__ int nonsense = nowhere;\n")
    with pytest.raises(BuildError, match=r'cannot build .* for sm_90: .*identifier "nowhere" is undefined'):
        cross.compile_for("sm_90", copied_sources)
