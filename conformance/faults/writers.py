"""List the defects of writers."""

from __future__ import annotations

from conformance.faults import (
    wrong_generic,
    wrong_numbers,
    wrong_nvfp4,
    wrong_places,
    wrong_scales,
    wrong_tiles,
    wrong_write_calls,
)

DEFECTS = (
    *wrong_numbers.DEFECTS,
    *wrong_places.DEFECTS,
    *wrong_write_calls.DEFECTS,
    *wrong_scales.DEFECTS,
    *wrong_nvfp4.DEFECTS,
    *wrong_tiles.DEFECTS,
    *wrong_generic.DEFECTS,
)
