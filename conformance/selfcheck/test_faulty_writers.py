"""The gate, run as a user runs it, on writers that are wrong in one way each."""

import re

import pytest

from conformance.selfcheck import faulty_writers
from conformance.selfcheck.running import gate
from reference.profiles import DEFAULT, PROFILES

MODULE = "conformance.selfcheck.faulty_writers"
GATE = ("conformance/gate/test_write.py", "conformance/gate/test_write_calls.py")

CAUGHT = {
    "Divides": (
        "test_every_number_gets_its_code_under_every_scale_byte",
        "exactly what profile flashmla writes",
    ),
    "RoundsToNearest": ("test_every_amax_gets_its_scale_byte", "exactly what profile vllm-0.33 writes"),
    "RoundsUp": ("test_every_amax_gets_its_scale_byte", "exactly what profile vllm-03b60164 writes"),
    "HasNoFloor": (
        "a_block_below_the_least_scale",
        "exactly what profile vllm-0.33 writes with floor none, codes 0 under a zero scale",
    ),
    "LetsNanIntoAmax": ("infinities_and_nan_in_a_block", "exactly what profile flashmla writes"),
    "WrapsNegativeSlots": ("a_skipped_token_and_the_last_slot", "to which no token is written"),
    "WritesPaddingToSlot0": ("nothing_but_skipped_tokens", "nothing was to be written"),
    "LooksAt32BitsOfASlot": ("negative_slots_with_valid_low_halves", "to which no token is written"),
    "ScalesRope": (
        "test_the_scale_argument_is_not_used",
        "exactly what profile vllm-0.33 writes with rope divided by scale",
    ),
    "SwapsNibbles": ("test_every_number_gets_its_code_under_every_scale_byte", "with nibbles high first"),
    "KeepsScalesInOrder": ("test_every_amax_gets_its_scale_byte", "with order in element order"),
}
"""By which test, among others, and with what words."""


@pytest.mark.parametrize("name", CAUGHT)
def test_a_faulty_writer_is_caught_by_the_test_that_is_about_its_fault(name: str) -> None:
    test, says = CAUGHT[name]
    done = gate(*GATE, "--target", f"{MODULE}:{name}", "-k", test)
    assert done.returncode == 1, done.stdout[-2000:]
    assert re.search(rf"^FAILED .*{test}", done.stdout, re.MULTILINE), done.stdout[-2000:]
    assert says in done.stdout


def test_a_writer_of_the_declared_profile_conforms() -> None:
    done = gate(*GATE, "--target", f"{MODULE}:FaultyWriter", "-k", "not malformed and not gib and not 24_bits")
    assert done.returncode == 0, done.stdout[-2000:]


def test_a_writer_of_one_format_is_asked_for_no_other() -> None:
    done = gate(*GATE, "--target", f"{MODULE}:WritesFp8Only", "-k", "not malformed and not gib")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "conforms" in done.stdout and "nvfp4_ds_mla" not in done.stdout


def test_every_faulty_writer_is_listed() -> None:
    classes = {name for name, kind in vars(faulty_writers).items() if isinstance(kind, type)}
    faulty = {name for name in classes if issubclass(getattr(faulty_writers, name), faulty_writers.FaultyWriter)}
    assert faulty - {"FaultyWriter"} == set(CAUGHT)


def test_the_projects_writers_conform_under_every_profile() -> None:
    others = [f"host-{name}" for name in PROFILES if name != DEFAULT.name]
    part = ("-k", "gets_its or broke or among or mantissa or random")  # what depends on the profile
    done = gate(*GATE, *part, *(argument for name in others for argument in ("--target", name)))
    assert done.returncode == 0, done.stdout[-2000:]
    assert all(f"target {name}: the CUDA sources on the CPU" in done.stdout for name in others)
