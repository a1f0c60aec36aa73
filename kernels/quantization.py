"""Define how a writer rounds where SPEC.md's chapter WRITE leaves a choice: the parameters of a profile."""

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
    """Hold one value for each parameter of SPEC.md's profiles.

    - `nan`: whether a NaN makes its block's amax NaN (WRITE-10).
    - `sixth`: how a sixth of amax is computed (WRITE-11).
    - `scale`: how that sixth is rounded to a scale byte (WRITE-12).
    - `normalisation`: how an element is divided by its scale (WRITE-13).
    - `tile`: which scales a tile of fp8_ds_mla may have (WRITE-17).

    nvfp4_ds_mla uses the first four. fp8_ds_mla uses `nan` and `tile`. "auto" and "fp8" use no parameter.
    """

    nan: Nan = "ignored"
    sixth: Sixth = "divided"
    scale: Scale = "nearest"
    normalisation: Normalisation = "reciprocal"
    tile: Tile = "power of two"

    def __post_init__(self) -> None:
        """Raise ValueError for a value that the types exclude, since values may come from a command line."""
        for field, kind in _ALLOWED.items():
            found, allowed = getattr(self, field), get_args(kind)
            if not isinstance(found, str) or found not in allowed:
                raise ValueError(f"{field}: found {found!r}, expected {' or '.join(map(repr, allowed))}")

    def defines(self) -> tuple[str, ...]:
        """Return the -D options that give a compiler these choices. kernels/cuda/quantization.cuh reads them."""
        options = []
        for field in fields(self):
            second = get_args(_ALLOWED[field.name])[1]
            macro = f"MLA_{field.name}_{second}".upper().replace(" ", "_")
            options.append(f"-D{macro}={int(getattr(self, field.name) == second)}")
        return tuple(options)


DEFAULT = Quantization()
"""The profile vllm-0.33 of SPEC.md."""
