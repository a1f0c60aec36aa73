"""The gate, run as a user runs it, on writers that are wrong in one way each."""

import re

import pytest

from conformance.selfcheck.running import gate
from reference.profiles import DEFAULT, PROFILES

GATE = ("conformance/gate/test_write.py", "conformance/gate/test_write_calls.py")

CAUGHT = {
    "divides": (
        "test_every_number_gets_its_code_under_every_scale_byte",
        "exactly what profile flashmla writes",
    ),
    "scale-nearest": ("test_every_amax_gets_its_scale_byte", "exactly what profile vllm-0.33 writes"),
    "scale-up": ("test_every_amax_gets_its_scale_byte", "exactly what profile vllm-03b60164 writes"),
    "no-floor": (
        "a_block_below_the_least_scale",
        "exactly what profile vllm-0.33 writes with floor none, codes 0 under a zero scale",
    ),
    "nan-in-amax": ("infinities_and_nan_in_a_block", "exactly what profile flashmla writes"),
    "minus-one-wraps": ("a_skipped_token_and_the_last_slot", "to which no token is written"),
    "padding-to-slot-0": ("nothing_but_skipped_tokens", "nothing was to be written"),
    "slots-in-32-bits": ("negative_slots_with_valid_low_halves", "to which no token is written"),
    "rope-divided-by-scale": (
        "test_the_scale_argument_is_not_used",
        "exactly what profile vllm-0.33 writes with rope divided by scale",
    ),
    "nibbles-swapped": ("test_every_number_gets_its_code_under_every_scale_byte", "with nibbles high first"),
    "scales-unpermuted": ("test_every_amax_gets_its_scale_byte", "with order in element order"),
}
"""By which test, among others, and with what words."""


IN_QUICK = ("minus-one-wraps", "rope-divided-by-scale")
"""The matrix judges them all (test_matrix.py); what is said of the others is looked at in the longer profiles."""


@pytest.mark.parametrize(
    "name", [name if name in IN_QUICK else pytest.param(name, marks=pytest.mark.nightly) for name in CAUGHT]
)
def test_a_faulty_writer_is_caught_by_the_test_that_is_about_its_fault_and_named(name: str) -> None:
    test, says = CAUGHT[name]
    done = gate(*GATE, "--target", f"fault:write-{name}", "-k", test)
    assert done.returncode == 1, done.stdout[-2000:]
    assert re.search(rf"^FAILED .*{test}", done.stdout, re.MULTILINE), done.stdout[-2000:]
    assert says in done.stdout and re.search(rf"explained exactly by: .* \(fault write-{name}\)", done.stdout)


def test_a_writer_of_one_format_is_asked_for_no_other() -> None:
    target = "conformance.selfcheck.one_format:WritesFp8Only"
    done = gate(*GATE, "--target", target, "-k", "broke or among or random")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "conforms" in done.stdout and "nvfp4_ds_mla" not in done.stdout


def test_the_projects_writers_conform_under_every_profile() -> None:
    others = [f"host-{name}" for name in PROFILES if name != DEFAULT.name]
    part = ("-k", "gets_its or broke or among or mantissa or random")  # what depends on the profile
    done = gate(*GATE, *part, *(argument for name in others for argument in ("--target", name)))
    assert done.returncode == 0, done.stdout[-2000:]
    assert all(f"target {name}: the CUDA sources on the CPU" in done.stdout for name in others)
