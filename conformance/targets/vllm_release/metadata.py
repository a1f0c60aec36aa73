"""Build vLLM's metadata of chunked context, and size its workspace.

The release's functions run on CPU tensors, with stand-ins for its configuration. No engine, model or GPU is needed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Literal

from conformance.targets.base import PLAN_DCP, PLAN_METADATA, PLAN_WORKSPACE
from conformance.targets.vllm_release import names

Function = Callable[..., Any]
Pinning = list[tuple[dict[str, Any], dict[str, Any]]]

ARGUMENTS = (
    "context_lens_cpu",
    "prefill_query_start_loc_cpu",
    "chunked_prefill_workspace",
    "chunked_prefill_workspace_size",
    "block_size",
    "align_chunk_to_block",
    "device",
    "dcp_world_size",
    "dcp_local_block_size",
    "dcp_virtual_block_size",
)
"""The arguments that a release's builder may take, by vLLM's names. Tried on 0.30.0, 0.32.0, 0.33.0."""

SMALLEST = ((1,), (0, 1), 16, 16, True, 1, 1)
"""A call that every CPU can serve, if the release's code runs at all."""


class Metadata:
    """Serve `plan.metadata`, `plan.dcp` and `plan.workspace` with the installed release."""

    def metadata_capabilities(self) -> frozenset[str]:
        """Return the planning capabilities whose functions the release has."""
        build = self._build
        found = {PLAN_METADATA} if build else set()
        if build and "dcp_world_size" in self._parameters:
            found.add(PLAN_DCP)
        if any(self._sizing.values()):
            found.add(PLAN_WORKSPACE)
        return frozenset(found)

    def metadata_hindrance(self, capability: str) -> str | None:
        """Return why the builder cannot run here, or takes unknown arguments. None for another capability."""
        return self._why_not if capability in (PLAN_METADATA, PLAN_DCP) else None

    def metadata_receipt(self) -> dict[str, Any]:
        """Return the qualified names of the functions that will run."""
        places = {"plan.metadata": self._build, **{f"plan.workspace {name}": f for name, f in self._sizing.items()}}
        return {name: f"{f.__module__}.{f.__qualname__}" if f else None for name, f in places.items()}

    def build_mla_chunked_context_metadata(
        self,
        context_lens: Sequence[int],
        query_start_loc: Sequence[int],
        workspace_rows: int,
        block_size: int,
        align_chunk_to_block: bool,
        dcp_world_size: int,
        interleave: int,
    ) -> Any:
        """See Target."""
        import torch

        handed = [(given, torch.tensor(given, dtype=torch.int32)) for given in (context_lens, query_start_loc)]
        arguments = (
            *(tensor for _, tensor in handed),
            torch.empty((0, 576), dtype=torch.bfloat16),  # is handed through only
            workspace_rows,
            block_size,
            align_chunk_to_block,
            torch.device("cpu"),
            dcp_world_size,
            interleave,
            interleave * dcp_world_size,
        )
        known = {name: each for name, each in zip(ARGUMENTS, arguments, strict=True) if name in self._parameters}
        assert self._build is not None
        with nothing_pinned(self._pinning):
            answer = self._build(**known)
        for given, tensor in handed:
            if isinstance(given, list):
                given[:] = tensor.tolist()  # what the builder did to its arguments, it did to the caller's (PLAN-23)
        return answer

    def determine_chunked_prefill_workspace_size(
        self,
        builder: Literal["dense", "sparse"],
        max_model_len: int,
        max_num_seqs: int,
        block_size: int,
        index_topk: int,
        dcp_world_size: int,
        interleave: int,
    ) -> int:
        """See Target."""
        rows_of = self._sizing[builder]
        if rows_of is None:
            raise NotImplementedError(f"this release has no {builder} builder")
        hf_config = SimpleNamespace(index_topk=index_topk)
        config = SimpleNamespace(
            model_config=SimpleNamespace(
                max_model_len=max_model_len, hf_text_config=hf_config, hf_config=hf_config, dtype=None
            ),
            scheduler_config=SimpleNamespace(max_num_seqs=max_num_seqs),
            cache_config=SimpleNamespace(block_size=block_size),
            parallel_config=SimpleNamespace(
                decode_context_parallel_size=dcp_world_size, cp_kv_cache_interleave_size=interleave
            ),
        )
        return int(rows_of(config))

    @cached_property
    def _build(self) -> Function | None:
        found: Function | None = names.first_of(names.METADATA_BUILDER)
        return found

    @cached_property
    def _sizing(self) -> dict[str, Function | None]:
        return {builder: names.first_of(places) for builder, places in names.WORKSPACE_ROWS.items()}

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        assert self._build is not None
        return inspect.signature(self._build).parameters

    @cached_property
    def _pinning(self) -> Pinning:
        return names.pinning()

    @cached_property
    def _why_not(self) -> str | None:
        unknown = [
            name for name, each in self._parameters.items() if each.default is each.empty and name not in ARGUMENTS
        ]
        if unknown:
            return f"the release's builder wants {', '.join(unknown)}, of which nothing is known here"
        try:
            self.build_mla_chunked_context_metadata(*SMALLEST)
        except (ImportError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        except RuntimeError as error:
            return str(error) if any(word in str(error) for word in ("driver", "CUDA", "pinned")) else None
        except Exception:  # whatever else a builder raises on a legal call is to be judged
            return None
        return None


@contextmanager
def nothing_pinned(pinning: Pinning) -> Iterator[None]:
    """Turn off pinned memory in vLLM. It pins data that it copies, even to the CPU, and pinning needs a driver."""
    before = [{name: space[name] for name in no} for space, no in pinning]
    try:
        for space, no in pinning:
            space.update(no)
        yield
    finally:
        for (space, _), yes in zip(pinning, before, strict=True):
            space.update(yes)
