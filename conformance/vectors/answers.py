"""Convert the inputs of planners and servers, and the answers of planners, from and to JSON."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from conformance.answers import truth
from conformance.metadata import MetadataCase
from conformance.metadata_rules import Seen
from conformance.vectors.vector import Json
from reference.serving import Serving


def chunks_told(plan: Sequence[Any]) -> list[Json]:
    """Return the chunks of a plan as JSON objects."""
    return [
        {
            "request_start": index(chunk.request_start),
            "request_end": index(chunk.request_end),
            "starts": [*map(index, chunk.starts)],
            "seq_lens": [*map(index, chunk.seq_lens)],
            "is_continuation": truth(chunk.is_continuation),
        }
        for chunk in plan
    ]


def metadata_asked(given: Json) -> MetadataCase:
    """Return the case of a metadata builder from its JSON input."""
    lists = {name: tuple(given[name]) for name in ("context_lens", "query_start_loc")}
    return MetadataCase(**{**given, **lists})


def serving_asked(given: Json) -> Serving:
    """Return the startup configuration of a server from its JSON input."""
    return Serving(**{**given, "compute_capability": tuple(given["compute_capability"])})


def metadata_told(seen: Seen | None) -> Json:
    """Return a builder's metadata as JSON: slices as [start, stop], arrays as lists, no metadata as null."""
    return {"metadata": None if seen is None else listed(vars(seen))}


def listed(told: Any) -> Any:
    """Return a value with all tuples in it converted to lists."""
    if isinstance(told, dict):
        return {name: listed(one) for name, one in told.items()}
    return [listed(one) for one in told] if isinstance(told, tuple | list) else told
