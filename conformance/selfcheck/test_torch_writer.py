"""The second golden model of writing, against records worked out by hand from SPEC.md."""

from typing import Any

import pytest
import torch
from torch import Tensor

from reference import torch_writer
from reference.profiles import Profile
from reference.torch_writer import concat_and_cache_mla, quantize_fp8, quantize_fp8_ds_mla, quantize_nvfp4

RECIPROCAL = Profile("reciprocal", normalisation="reciprocal", nan="ignored")
DIVISION = Profile("division", normalisation="division")
UP = Profile("up", scale="up")
SPREADS = Profile("spreads", nan="spreads")
ARBITRARY = Profile("arbitrary", tile="arbitrary")
POWER = Profile("power", tile="power of two")
INF, NAN = float("inf"), float("nan")
WIDTHS = {"nvfp4_ds_mla": 352, "fp8_ds_mla": 656, "auto": 576, "fp8": 576}


def bf16(*bits: int) -> Tensor:
    return torch.tensor(bits, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


def rows(width: int, *values: float) -> Tensor:
    return torch.tensor([*values] + [0.0] * (width - len(values))).bfloat16().reshape(1, width)


def nvfp4(profile: Profile, *latent: float, rope: tuple[float, ...] = ()) -> Tensor:
    return quantize_nvfp4(rows(512, *latent), rows(64, *rope), profile)[0]


def codes(record: Tensor, count: int = 16) -> list[int]:
    return torch.stack((record[:256] & 15, record[:256] >> 4), dim=1).flatten().tolist()[:count]


@pytest.mark.parametrize(
    ("amax", "nearest", "up"),
    [
        (2.0**-133, 0x01, 0x01),
        (0.01177978515625, 0x01, 0x02),
        (9 * 2.0**-9, 0x02, 0x02),  # halfway between 0x01 and 0x02
        (15 * 2.0**-9, 0x02, 0x03),  # halfway between 0x02 and 0x03
        (6.375, 0x38, 0x39),  # halfway between 0x38 and 0x39
        (2560.0, 0x7D, 0x7E),
        (2592.0, 0x7E, 0x7E),  # halfway between 0x7D and 0x7E
        (2688.0, 0x7E, 0x7E),
        (2704.0, 0x7E, 0x7E),
        (INF, 0x7E, 0x7E),
    ],
)
def test_the_scale_byte_is_the_nearest_or_the_next_one_up(amax: float, nearest: int, up: int) -> None:
    assert nvfp4(RECIPROCAL, 0.0, -amax)[320] == nearest
    assert nvfp4(UP, 0.0, -amax)[320] == up


def test_a_reciprocal_rounds_twice_and_a_division_once() -> None:
    block = (11.25, 9.375, 4.6875, 2.34375)
    assert nvfp4(RECIPROCAL, *block)[320] == nvfp4(DIVISION, *block)[320] == 0x3F
    assert codes(nvfp4(RECIPROCAL, *block), 5) == [7, 7, 5, 3, 0]
    assert codes(nvfp4(DIVISION, *block), 5) == [7, 6, 4, 2, 0]


@pytest.mark.parametrize("profile", [RECIPROCAL, DIVISION])
def test_a_tie_goes_to_the_even_code_and_the_sign_stays(profile: Profile) -> None:
    ties, even = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0), (0, 2, 2, 4, 4, 6, 6)
    record = nvfp4(profile, *ties, 6.0, *(-x for x in ties), -0.0)
    assert codes(record) == [*even, 7, *(8 + code for code in even), 8]


@pytest.mark.parametrize("profile", [UP, DIVISION])
def test_a_record_of_zeros_has_the_least_scales(profile: Profile) -> None:
    record = nvfp4(profile, 0.0, -0.0, rope=(0.0, -0.0))
    assert record.tolist() == [0x80] + [0] * 255 + [0, 0x80] + [0] * 62 + [1] * 32


def test_an_element_beyond_the_largest_scale_saturates() -> None:
    assert codes(nvfp4(DIVISION, 2.0**127, -3000.0, 1344.0, 448.0), 4) == [7, 15, 5, 2]
    assert codes(nvfp4(DIVISION, INF, -INF, 448.0), 3) == [7, 15, 2]


@pytest.mark.parametrize("pattern", [0x7F81, 0x7FC0, 0x7FFF, 0xFF81, 0xFFFF])
def test_a_nan_of_any_encoding_is_ignored_or_spreads_over_its_block(pattern: int) -> None:
    rest = [0] * 13
    latent, rope = rows(512, NAN, 6.0, -3.0, *rest, *[NAN] * 16, 6.0, 0.0, 0.0, *rest, INF, NAN, -INF), rows(64, NAN)
    latent[latent.isnan()] = rope[0, 0] = bf16(pattern)[0]
    ignored, spread = (quantize_nvfp4(latent, rope, profile)[0] for profile in (RECIPROCAL, SPREADS))
    assert codes(ignored, 64) == [7, 7, 13, *rest, *[7] * 16, 7, 0, 0, *rest, 7, 7, 15, *rest]
    assert ignored[[256, 320, 328, 336, 344]].tolist() == [0x7F, 0x38, 0x01, 0x38, 0x7E]
    assert codes(spread, 64) == [7] * 33 + [0] * 15 + [7] * 16
    assert spread[[256, 320, 328, 336, 344]].tolist() == [0x7F, 0x7F, 0x7F, 0x38, 0x7F]


def test_scales_and_nibbles_stand_in_their_places() -> None:
    numbers = [b * 2.0**-9 if b < 8 else (8 + b % 8) * 2.0 ** (b // 8 - 10) for b in range(1, 33)]
    latent = torch.zeros(32, 16)
    latent[:, 5] = 6 * torch.tensor(numbers)
    record = quantize_nvfp4(latent.bfloat16().reshape(1, 512), rows(64), RECIPROCAL)[0].tolist()
    assert [record[320 + 8 * (s & 3) + (s >> 2)] for s in range(32)] == list(range(1, 33))
    assert record[:256] == [0, 0, 0x70, 0, 0, 0, 0, 0] * 32


@pytest.mark.parametrize("scale", ["nearest", "up"])
def test_a_sixth_of_either_kind_gives_the_same_scale_bytes(scale: Any) -> None:
    latent = torch.zeros(1020, 32, 16, dtype=torch.int16)
    latent[:, :, 3] = torch.arange(0x7F80, dtype=torch.int16).reshape(1020, 32)
    rows_of_all = latent.view(torch.bfloat16).reshape(1020, 512), torch.zeros(1020, 64).bfloat16()
    divided, multiplied = (Profile("", sixth="divided", scale=scale), Profile("", sixth="multiplied", scale=scale))
    assert quantize_nvfp4(*rows_of_all, divided).equal(quantize_nvfp4(*rows_of_all, multiplied))


def test_rope_bytes_saturate_and_keep_signs() -> None:
    rope = (448.0, 464.0, 466.0, -466.0, INF, -INF, NAN, -NAN, 2.0**-10, 3 * 2.0**-11, -(2.0**-133), 1.0625)
    expected = [0x7E, 0x7E, 0x7E, 0xFE, 0x7E, 0xFE, 0x7F, 0x7F, 0x00, 0x01, 0x80, 0x38]
    assert nvfp4(UP, rope=rope)[256:268].tolist() == expected


@pytest.mark.parametrize(
    ("profile", "tile", "scale", "first"),
    [
        (ARBITRARY, (336.0, -168.0, -0.0), 0x3F400000, [0x7E, 0xF6, 0x80]),
        (ARBITRARY, (3136.0, 10.9375), 0x40E00000, [0x7E, 0x3C]),  # halfway, but 0x3D by the reciprocal of the scale
        (ARBITRARY, [1.0] * 127 + [-448.0], 0x3F800000, [0x38] * 127 + [0xFE]),
        (ARBITRARY, (0.0,), 0x00800000, [0]),
        (ARBITRARY, (2.0**-133, -(2.0**-132)), 0x00800000, [0x04, 0x88]),  # inputs below the least normal number
        (POWER, (336.0, -168.0, -0.0), 0x3F800000, [0x7A, 0xF2, 0x80]),  # both halfway
        (POWER, (-448.0,), 0x3F800000, [0xFE]),
        (POWER, (450.0,), 0x40000000, [0x76]),
        (POWER, (0.0,), 0x39000000, [0]),  # 2^-13 is the next power of two above 1e-4
    ],
)
def test_a_tile_has_one_scale(profile: Profile, tile: list[float], scale: int, first: list[int]) -> None:
    record = quantize_fp8_ds_mla(rows(512, *[0.0] * 256, *tile), rows(64), profile)[0].tolist()
    other = 0x00800000 if profile is ARBITRARY else 0x39000000
    assert record[512:528] == [byte for s in (other, other, scale, other) for byte in s.to_bytes(4, "little")]
    assert record[:512] == [0] * 256 + first + [0] * (256 - len(first))


@pytest.mark.parametrize(
    ("scale", "x", "byte"),
    [
        (2.0, 896.0, 0x7E),
        (2.0, -1000.0, 0xFE),
        (1.0, INF, 0x7E),
        (1.0, NAN, 0x7F),
        (3.0, -0.0, 0x80),
        (7.0, 10.9375, 0x3C),  # halfway, but 0x3D by the reciprocal of the scale
        (2.0**-140, 2.0**-133, 0x70),  # both below the least normal number
        (2.0**-149, 1.0, 0x7E),  # the quotient is beyond binary32
    ],
)
def test_fp8_divides_latent_and_rope_alike(scale: float, x: float, byte: int) -> None:
    written = quantize_fp8(rows(512, 0.0, x), rows(64, x), torch.tensor([scale]))[0].tolist()
    assert written == [0, byte] + [0] * 510 + [byte] + [0] * 63


def good(kind: str = "nvfp4_ds_mla", slots: tuple[int, ...] = (6, -1, 1), **other: Any) -> dict[str, Any]:
    return {
        "kv_c": torch.arange(1.0, 1 + 512 * len(slots)).bfloat16().reshape(-1, 512),
        "k_pe": -torch.arange(1.0, 1 + 64 * len(slots)).bfloat16().reshape(-1, 64),
        "kv_cache": torch.full((2, 4, WIDTHS[kind]), 99).to(torch.bfloat16 if kind == "auto" else torch.uint8),
        "slot_mapping": torch.tensor(slots, dtype=torch.int64),
        "kv_cache_dtype": kind,
        "scale": torch.tensor([0.5 if kind == "fp8" and slots else NAN]),
        "profile": UP,
        **other,
    }


def records_of(call: dict[str, Any]) -> Tensor:
    x = call["kv_c"], call["k_pe"]
    if call["kv_cache_dtype"] in ("auto", "fp8"):
        return torch.cat(x, dim=1) if call["kv_cache_dtype"] == "auto" else quantize_fp8(*x, call["scale"])
    return (quantize_nvfp4 if call["kv_cache_dtype"] == "nvfp4_ds_mla" else quantize_fp8_ds_mla)(*x, UP)


@pytest.mark.parametrize("rows_at_a_time", [1, 4096])
@pytest.mark.parametrize("kind", WIDTHS)
def test_each_token_goes_to_its_slot_whatever_follows_the_last_and_nothing_else_changes(
    kind: str, rows_at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_writer, "_CHUNK_ROWS", rows_at_a_time)
    call = good(kind)
    expected = {name: call[name].clone() for name in ("slot_mapping", "kv_cache")}
    expected["kv_cache"][1, 2], expected["kv_cache"][0, 1] = records_of(call)[[0, 2]]
    call |= {name: torch.cat((call[name], torch.full_like(call[name], INF))) for name in ("kv_c", "k_pe")}
    expected |= {name: call[name].clone() for name in ("kv_c", "k_pe")}
    concat_and_cache_mla(**call)
    assert all(call[name].equal(x) for name, x in expected.items())


@pytest.mark.parametrize("slots", [(-1, -(2**63), -1), ()])
@pytest.mark.parametrize("kind", WIDTHS)
def test_without_a_slot_nothing_is_written_whatever_the_rows_hold(kind: str, slots: tuple[int, ...]) -> None:
    call = good(kind, slots, kv_c=torch.full((3, 512), NAN).bfloat16(), k_pe=torch.full((3, 64), NAN).bfloat16())
    concat_and_cache_mla(**call)
    assert (call["kv_cache"] == 99).all()


@pytest.mark.parametrize(("kind", "ends"), [("auto", [1024, 1152]), ("fp8_ds_mla", [656])])
def test_what_is_copied_keeps_its_bits(kind: str, ends: list[int]) -> None:
    call = good(kind, (5,))
    call["k_pe"][0, -4:] = bf16(0x7F81, 0xFFC5, 0x8001, 0x1234)
    call["kv_c"][0, -4:] = call["k_pe"][0, -4:] if kind == "auto" else 0
    concat_and_cache_mla(**call)
    written = call["kv_cache"][1, 1].view(torch.uint8)
    assert all(written[n - 8 : n].tolist() == [0x81, 0x7F, 0xC5, 0xFF, 0x01, 0x80, 0x34, 0x12] for n in ends)


@pytest.mark.parametrize("kind", WIDTHS)
def test_strides_are_honoured(kind: str) -> None:
    call = good(kind)
    packed = torch.cat((call["kv_c"], torch.full((3, 3), NAN).bfloat16(), call["k_pe"]), dim=1)
    call["kv_c"], call["k_pe"] = packed[:, :512], packed[:, 515:]
    memory = torch.full((4, 2, 700), 99).to(call["kv_cache"].dtype)
    expected = memory.clone()
    call["kv_cache"] = memory[:, :, 5 : 5 + WIDTHS[kind]].transpose(0, 1)
    expected[[2, 1], [1, 0], 5 : 5 + WIDTHS[kind]] = records_of(call)[[0, 2]]
    concat_and_cache_mla(**call)
    assert memory.equal(expected)


def test_an_offset_beyond_two_to_the_31_is_reached_and_a_stride_without_use_does_not_count() -> None:
    far = 2**31 + 64
    memory = torch.empty(far + 352, dtype=torch.uint8)
    call = good(slots=(1,), kv_cache=memory.as_strided((2, 1, 352), (far, 7, 1)))
    concat_and_cache_mla(**call)
    assert memory[far:].equal(records_of(call)[0])


@pytest.mark.parametrize("strides", [(704, 500), (1056, 351), (0, 352), (352, 0), (1055, 704), (1057, 704), (1, 9)])
def test_records_that_overlap_are_refused(strides: tuple[int, ...]) -> None:
    cache = torch.zeros(4000).byte().as_strided((2, 3, 352), (*strides, 1))
    with pytest.raises(ValueError, match=r"^kv_cache\.stride\(\): found"):
        concat_and_cache_mla(**good(slots=(), kv_cache=cache))


@pytest.mark.parametrize("strides", [(1056, 352), (352, 704), (1056, 704), (352, 1056), (1770, 700)])
def test_records_that_interleave_are_served(strides: tuple[int, ...]) -> None:
    call = good(slots=(3, 1, 5), kv_cache=torch.zeros(4000).byte().as_strided((2, 3, 352), (*strides, 1)))
    concat_and_cache_mla(**call)
    assert call["kv_cache"][[1, 0, 1], [0, 1, 2]].equal(records_of(call))


MALFORMED: list[tuple[str, str, Any]] = [
    ("kv_c", r"\.dtype: found torch.float16, allowed torch.bfloat16", lambda x: x.half()),
    ("kv_c", r"\.shape", lambda x: x[:, :511]),
    ("kv_c", r"\.shape\[0\]: found 2, allowed at least 3", lambda x: x[:2]),
    ("kv_c", r"\.stride\(-1\)", lambda x: x.repeat(1, 2)[:, ::2]),
    ("k_pe", r"\.dtype", lambda x: x.float()),
    ("k_pe", r"\.shape\[0\]", lambda x: x[:2]),
    ("kv_cache", r"\.dtype", lambda x: x.bfloat16()),
    ("kv_cache", r"\.shape", lambda x: x[:, :, :351]),
    ("kv_cache", r"\.shape\[1\]", lambda x: x[:, :0]),
    ("kv_cache", r"\.stride\(-1\)", lambda x: x.repeat(1, 1, 2)[:, :, ::2]),
    ("slot_mapping", r"\.dtype: found torch.int32, allowed torch.int64", lambda x: x.int()),
    ("slot_mapping", r"\.shape", lambda x: x[None]),
    ("slot_mapping", r"\.stride\(-1\)", lambda x: x.repeat(2)[::2]),
    ("kv_cache_dtype", ": found 'fp8_e4m3', allowed one of", lambda x: "fp8_e4m3"),
    ("scale", r"\.dtype", lambda x: x.double()),
    ("scale", r"\.shape", lambda x: x.repeat(2)),
    ("scale", ": found NoneType", lambda x: None),
    *((name, r"\.device: found meta", lambda x: x.to("meta")) for name in ("kv_c", "k_pe", "slot_mapping", "scale")),
]
ILLEGAL: list[tuple[str, str, dict[str, Any]]] = [
    ("auto", r"slot_mapping\[1\]: found 8, allowed a slot below 8", {"slots": (0, 8, 1)}),
    ("fp8", r"slot_mapping\[2\]: found 2147483648", {"slots": (0, -1, 2**31)}),
    ("nvfp4_ds_mla", r"slot_mapping\[3\]: found 5", {"slots": (5, 0, -1, 5, -1)}),
    ("fp8_ds_mla", r"kv_c\[1, 7\]: found inf", {"slots": (-1, 0), "kv_c": rows(512, *[0.0] * 7, INF).repeat(2, 1)}),
    *(("fp8", r"scale\[0\]: found", {"slots": (-1,), "scale": torch.tensor([x])}) for x in (NAN, INF, 0.0, -0.0, -1.0)),
]


@pytest.mark.parametrize(("argument", "says", "change"), MALFORMED)
def test_a_malformed_call_is_refused_by_name_and_writes_nothing(argument: str, says: str, change: Any) -> None:
    call = good()
    cache = call["kv_cache"]
    call[argument] = change(call[argument])
    with pytest.raises(ValueError, match=f"^{argument}{says}"):
        concat_and_cache_mla(**call)
    assert (cache == 99).all()


@pytest.mark.parametrize(("kind", "says", "other"), ILLEGAL)
def test_an_illegal_call_is_refused_with_its_place_and_writes_nothing(kind: str, says: str, other: Any) -> None:
    call = good(kind, **other)
    with pytest.raises(ValueError, match=f"^{says}"):
        concat_and_cache_mla(**call)
    assert (call["kv_cache"] == 99).all()


def test_the_quantizers_refuse_what_they_cannot_write() -> None:
    with pytest.raises(ValueError, match=r"^k_pe\.shape\[0\]: found 2"):
        quantize_nvfp4(rows(512), rows(64).repeat(2, 1), UP)
    with pytest.raises(ValueError, match=r"^kv_c\[0, 1\]: found nan"):
        quantize_fp8_ds_mla(rows(512, 1.0, NAN), rows(64), POWER)
    with pytest.raises(ValueError, match=r"^scale\[0\]: found 0"):
        quantize_fp8(rows(512), rows(64), torch.tensor([0.0]))
