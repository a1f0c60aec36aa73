"""Record the gathers of vLLM's prefill code, which runs with operators that only note their calls."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from conformance.targets.base import SERVE_DISPATCH
from conformance.targets.vllm_release import names
from conformance.targets.vllm_release.replacing import replaced
from conformance.verdict import NotJudged, Unsupported
from fixtures.serve_cases import Context, GatherCall, Ints


class Dispatching:
    """Serve `serve.dispatch` with the sites of the installed release that choose a gather."""

    def dispatch_capabilities(self) -> frozenset[str]:
        """Return serve.dispatch, if the release has the dense site."""
        return frozenset({SERVE_DISPATCH} if _found(names.GATHER_SITES["dense"]) else ())

    def dispatch_receipt(self) -> dict[str, Any]:
        """Return the method that will run, by site."""
        return {"gather sites": {site: _found(places) for site, places in names.GATHER_SITES.items()}}

    def context_gathers(self, site: str, kv_cache_dtype: str, case: Context) -> Sequence[GatherCall] | None:
        """See Target. Raises Unsupported without the site, and NotJudged if its code stops before all its gathers."""
        from conformance.targets.vllm_release import stand_ins  # imports torch, which every worker would wait for

        place = _found(names.GATHER_SITES[site])
        if place is None:
            raise Unsupported(f"this vLLM has no site {site}: {names.GATHER_SITES[site][0][1]} cannot be imported")
        method = names.first_of([place])
        owner = names.first_of([(place[0], place[1].rpartition(".")[0])])
        if names.GATHER_OPERATORS not in method.__globals__:
            raise NotJudged(f"{place[1]} does not call its operators through {names.GATHER_OPERATORS}")
        recorder = Recorder(method.__globals__[names.GATHER_OPERATORS])
        with recorded(method.__globals__, recorder):
            layer = stand_ins.Layer(owner, kv_cache_dtype, case)
            run = stand_ins.prepare(site, method, layer, case)
            if run is None:
                return None
            recorder.workspace = layer.workspace
            try:
                run()
            except Exception as error:
                if len(recorder.calls) < len(case.chunks(site)):
                    said = f"{type(error).__name__}: {error}"
                    raise NotJudged(f"{place[1]} stopped after {len(recorder.calls)} gathers: {said}") from error
        return recorder.calls


def _found(places: list[tuple[str, str]]) -> tuple[str, str] | None:
    return next((place for place in places if _method(place)), None)


def _method(place: tuple[str, str]) -> Any:
    try:
        return names.first_of([place])
    except Exception:  # an import may ask for a device, and say so in any way
        return None


class Recorder:
    """Stand for the module of operators. Calls of gathers are noted; no operator runs."""

    def __init__(self, operators: Any) -> None:
        """Take the module of operators that it replaces."""
        self.operators = operators
        self.workspace: Any = None
        self.calls: list[GatherCall] = []

    def __getattr__(self, operator: str) -> Any:
        """Return a function that notes a call of the operator."""
        return partial(self._call, operator, inspect.signature(getattr(self.operators, operator)))

    def _call(self, operator: str, signature: inspect.Signature, *values: Any, **named: Any) -> None:
        bound = signature.bind(*values, **named)
        bound.apply_defaults()
        given = bound.arguments
        if not {"dst", "block_table"} <= set(given):
            return
        dst, table = given["dst"], given["block_table"]
        row_bytes = self.workspace.stride(0) * self.workspace.element_size()
        self.calls.append(
            GatherCall(
                operator,
                int(given.get("num_tokens", dst.shape[0])),
                tuple(tuple(row) for row in table.tolist()),
                _ints(given["workspace_starts"] if "workspace_starts" in given else given["cu_seq_lens"]) or (),
                int(given.get("batch_size", table.shape[0])),
                _ints(given.get("seq_starts", given.get("starts"))),
                (dst.data_ptr() - self.workspace.data_ptr()) // row_bytes,
                _ints(given.get("token_to_seq")),
                given.get("kv_cache_dtype"),
                _caller(),
            )
        )


def _ints(tensor: Any) -> Ints | None:
    return None if tensor is None else tuple(tensor.tolist())


def _caller() -> str:
    frame = sys._getframe(2)
    parts = Path(frame.f_code.co_filename).parts
    inside = parts[len(parts) - parts[::-1].index("vllm") - 1 :] if "vllm" in parts else parts[-1:]
    return f"{'/'.join(inside)}:{frame.f_lineno} ({frame.f_code.co_name})"


@contextmanager
def recorded(module: dict[str, Any], recorder: Recorder) -> Iterator[None]:
    """Make a module's code see the recorder, a CUDA platform, and inert functions for all that follows a gather."""
    from conformance.targets.vllm_release import stand_ins

    instead: dict[str, Any] = {names.GATHER_OPERATORS: recorder, **stand_ins.INERT}
    if "current_platform" in module:
        instead["current_platform"] = stand_ins.Platform(module["current_platform"])
    with replaced(module, instead):
        yield
