"""Which way of quantizing a writer has: named profiles, combinations that nobody named, and writers like no other."""

from typing import Any

import numpy as np
import pytest
from rich.console import Console

from conformance.identify.probe import SCALE_ARGUMENT, identify, probe
from conformance.identify.report import report
from conformance.selfcheck.running import run
from conformance.targets.models import NumpyTarget
from conformance.write_traits import (
    ORDERS,
    STANDARD_ORDER,
    Traits,
    every_combination,
    nearest_named,
    of_profile,
    records_of,
)
from reference.profiles import PROFILES
from reference.quantize import quantize_nvfp4


class Writer(NumpyTarget):
    """A writer of nvfp4_ds_mla with any traits, and something done to its records."""

    capabilities = frozenset({"write.nvfp4"})

    def __init__(self, traits: Traits, meddle: Any = None) -> None:
        super().__init__()
        self.traits, self.meddle = traits, meddle

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        tokens = np.flatnonzero(slot_mapping >= 0)
        records = records_of(self.traits, kv_c[tokens], k_pe[tokens], float(scale[0]))
        if self.meddle:
            self.meddle(kv_c[tokens], records)
        kv_cache[np.divmod(slot_mapping[tokens], kv_cache.shape[1])] = records


@pytest.mark.parametrize("order", ORDERS, ids=ORDERS.values())
def test_every_two_combinations_differ_on_the_probe(order: tuple[int, ...]) -> None:
    case = probe()
    combinations = list(every_combination(order))
    written = {records_of(traits, case.kv_c, case.k_pe, SCALE_ARGUMENT).tobytes() for traits in combinations}
    assert len(written) == len(combinations) == 288


@pytest.mark.parametrize("name", PROFILES)
def test_the_traits_of_a_profile_write_what_the_golden_model_writes(name: str) -> None:
    case = probe()
    expected = quantize_nvfp4(case.kv_c, case.k_pe, PROFILES[name])
    assert np.array_equal(records_of(of_profile(PROFILES[name]), case.kv_c, case.k_pe, SCALE_ARGUMENT), expected)


@pytest.mark.parametrize("name", PROFILES)
def test_every_named_profile_is_told_from_the_others(name: str) -> None:
    found = identify(NumpyTarget(profile=PROFILES[name]))
    alike = {"vllm-0.33", "vllm-triton"}
    assert found.exact and {profile.name for profile in found.profiles} == (alike if name in alike else {name})


@pytest.mark.parametrize(
    "traits",
    [
        Traits(scale="up", normalisation="division"),
        Traits(scale="down"),
        Traits(nan="spreads"),
        Traits(floor="none"),
        Traits(floor="none, codes 0 under a zero scale", normalisation="division"),
        Traits(nibbles="high first", order=tuple(range(32))),
        Traits(rope="divided by scale"),
        Traits(rope="e4m3, NaN beyond its range", scale="up"),
        Traits(order=tuple(int(place) for place in np.random.default_rng(5).permutation(32))),
    ],
    ids=lambda traits: nearest_named(traits)[0].name,
)
def test_a_combination_that_nobody_named_is_told_as_one(traits: Traits) -> None:
    found = identify(Writer(traits))
    assert found.exact and found.traits == traits and not found.profiles
    assert found.headline().startswith("no named profile: ")
    for trait, (mine, theirs) in nearest_named(traits)[1].items():
        assert f"{trait} {mine} instead of {theirs}" in found.headline()


def test_a_writer_like_no_other_is_the_nearest_one_and_its_first_contradiction() -> None:
    def meddle(kv_c: np.ndarray, records: np.ndarray) -> None:
        tokens, elements = np.nonzero(kv_c == 0x4040)  # 3.0
        records[tokens, elements // 2] ^= 1

    found = identify(Writer(Traits(order=STANDARD_ORDER), meddle))
    assert not found.exact and "vllm-0.33" in found.headline() and "which it contradicts" in found.headline()
    assert "the numbers [" in found.contradiction and "3.0" in found.contradiction


def test_scale_bytes_that_are_no_permutation_are_no_reason_to_give_up() -> None:
    def meddle(kv_c: np.ndarray, records: np.ndarray) -> None:
        records[:, 351] = 0

    found = identify(Writer(Traits(), meddle))
    assert not found.exact and found.contradiction.startswith("byte 351, the scale of a block of")


def test_the_command_line_says_which_profile_a_target_has() -> None:
    done = run("conformance", "identify", "--target", "numpy")
    assert done.returncode == 0, done.stderr
    assert "profile vllm-0.33 or vllm-triton" in done.stdout and "bytes written" in done.stdout


def test_a_target_that_cannot_be_asked_is_not_judged() -> None:
    done = run("conformance", "identify", "--target", "cuda")
    assert done.returncode == 125 and "not judged" in done.stdout


def test_a_declaration_that_is_not_true_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([Writer(Traits(scale="up"))], Console(width=200)) == 1
    assert "it declares profile vllm-0.33, which it is not" in capsys.readouterr().out


def test_two_writers_that_must_not_share_a_cache_are_told() -> None:
    done = run("conformance", "identify", "--target", "numpy", "--target", "host-vllm-03b60164")
    assert done.returncode == 1
    assert "host-vllm-03b60164 and numpy must not write to one cache: " in done.stdout
    assert "host-vllm-03b60164 has scale up and not nearest" in done.stdout


def test_the_histogram_shows_which_scale_bytes_are_reached() -> None:
    done = run("conformance", "histogram", "--tokens", "400")
    assert done.returncode == 0 and "mixed numbers of the suite: 126 of 126 reached" in done.stdout
    assert "N(0, 1): " in done.stdout and "elements on a tie: 0.25: " in done.stdout


class OfAnotherDevice(NumpyTarget):
    def hindrance(self, capability: str) -> str | None:
        return "requires SM100; got SM90" if capability == "write.nvfp4" else None


def test_of_a_writer_that_cannot_write_nvfp4_ds_mla_here_the_tile_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code = report([OfAnotherDevice(profile=PROFILES["arbitrary-tiles"])], Console(width=200))
    told = capsys.readouterr().out
    assert code == 125 and "not judged: requires SM100; got SM90" in told and "arbitrary (fp8_ds_mla)" in told
