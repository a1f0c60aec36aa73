"""How a writer rounds, where SPEC.md's chapter WRITE leaves a choice: the parameters of a profile."""

from dataclasses import dataclass, fields
from typing import Literal, get_args

Nan = Literal["ignored", "spreads"]
Sixth = Literal["divided", "multiplied"]
Scale = Literal["nearest", "up"]
Normalisation = Literal["reciprocal", "division"]
Tile = Literal["arbitrary", "power of two"]

_ALLOWED = {"nan": Nan, "sixth": Sixth, "scale": Scale, "normalisation": Normalisation, "tile": Tile}


@dataclass(frozen=True)
class Quantization:
    """One value for each parameter of SPEC.md's profiles; ValueError names a field that has another.

    `nan`: whether a NaN makes its block's amax NaN (WRITE-10); `sixth`: how amax becomes a sixth (WRITE-11); `scale`:
    how that becomes a scale byte (WRITE-12); `normalisation`: how an element is brought to that scale (WRITE-13);
    `tile`: what the scale of a tile of fp8_ds_mla may be (WRITE-17). The first four count for nvfp4_ds_mla, `nan` and
    `tile` for fp8_ds_mla, and none for "auto" and "fp8".
    """

    nan: Nan = "ignored"
    sixth: Sixth = "divided"
    scale: Scale = "nearest"
    normalisation: Normalisation = "reciprocal"
    tile: Tile = "power of two"

    def __post_init__(self) -> None:
        """Refuse what the types rule out, since the values may come from a command line."""
        for field, kind in _ALLOWED.items():
            found, allowed = getattr(self, field), get_args(kind)
            if not isinstance(found, str) or found not in allowed:
                raise ValueError(f"{field}: found {found!r}, expected {' or '.join(map(repr, allowed))}")

    def defines(self) -> tuple[str, ...]:
        """Return the -D options that tell a compiler these choices; kernels/cuda/quantization.cuh reads them."""
        options = []
        for field in fields(self):
            second = get_args(_ALLOWED[field.name])[1]
            macro = f"MLA_{field.name}_{second}".upper().replace(" ", "_")
            options.append(f"-D{macro}={int(getattr(self, field.name) == second)}")
        return tuple(options)


DEFAULT = Quantization()
"""SPEC.md's profile vllm-0.33."""
