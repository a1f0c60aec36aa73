"""`python -m conformance capacity`: whole blocks, every record, and errors that name the option."""

import pytest

from conformance.capacity import capacities
from conformance.selfcheck.running import run


def test_a_record_takes_352_656_576_or_1152_bytes() -> None:
    assert {row.kv_cache_dtype: row.record_bytes for row in capacities(0, 1, 1)} == {
        "nvfp4_ds_mla": 352,
        "fp8_ds_mla": 656,
        "fp8": 576,
        "auto": 1_152,
    }


def test_fp8_ds_mla_takes_1_86_times_the_bytes_of_nvfp4_ds_mla() -> None:
    assert [round(row.ratio, 2) for row in capacities(1 << 40, 61, 64)] == [1.00, 1.86, 1.64, 3.27]


@pytest.mark.parametrize(("nbytes", "blocks"), [(0, 0), (352 * 2 * 4 - 1, 0), (352 * 2 * 4, 1), (352 * 2 * 8 - 1, 1)])
def test_only_whole_blocks_in_every_layer_count(nbytes: int, blocks: int) -> None:
    row = capacities(nbytes, layers=2, block_size=4)[0]
    assert (row.blocks, row.tokens) == (blocks, 4 * blocks)


@pytest.mark.parametrize("argument", ["nbytes", "layers", "block_size"])
def test_a_number_that_makes_no_sense_is_refused_by_name(argument: str) -> None:
    numbers = {"nbytes": 1, "layers": 1, "block_size": 1, argument: -1}
    with pytest.raises(ValueError, match=f"{argument} is -1"):
        capacities(**numbers)


def test_the_command_prints_what_80_gib_hold() -> None:
    done = run("conformance", "capacity", "--gib", "80", "--layers", "61", "--block-size", "64")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    # 80 * 2^30 bytes over blocks of 64 * 61 records
    assert ["nvfp4_ds_mla", "352", "1.00", "62,508", "4,000,512"] in lines
    assert ["fp8_ds_mla", "656", "1.86", "33,541", "2,146,624"] in lines


@pytest.mark.parametrize(
    ("option", "value"), [("--gib", "0"), ("--gib", "nan"), ("--gib", "inf"), ("--layers", "0"), ("--block-size", "-4")]
)
def test_a_bad_option_is_a_usage_error_that_names_it(option: str, value: str) -> None:
    options = {"--gib": "80", "--layers": "61", "--block-size": "64", option: value}
    done = run("conformance", "capacity", *(part for pair in options.items() for part in pair))
    assert done.returncode == 2
    assert option in done.stderr
