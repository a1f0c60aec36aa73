"""List where vLLM keeps the code under test. Names that move between releases are only in this module.

Each entry lists the places that have had it, newest first, and the releases on which it was tried.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

MLA = "vllm.model_executor.layers.attention.mla_attention"

PLANNER = [(MLA, "plan_mla_context_chunks")]
"""Tried on 0.30.0, 0.32.0, 0.33.0."""

SPARSE_MLA = "vllm.model_executor.layers.attention.sparse_mla_attention"

METADATA_BUILDER = [(MLA, "build_mla_chunked_context_metadata")]
"""Tried on 0.30.0, 0.32.0, 0.33.0."""

_ROWS = "determine_chunked_prefill_workspace_size"
WORKSPACE_ROWS = {
    "dense": [(MLA, f"MLACommonMetadataBuilder.{_ROWS}")],
    "sparse": [(SPARSE_MLA, f"SparseMLACommonMetadataBuilder.{_ROWS}")],
}
"""By builder; tried on 0.30.0, 0.32.0, 0.33.0."""

PINNED: dict[str, Any] = {"PIN_MEMORY": False, "is_pin_memory_available": lambda: False}
"""The names that say whether host memory is pinned, with values that say no. 0.30.0 and 0.33.0 have the constant.
0.32.0 has only the function and, in some modules, a constant made from it. Tried on 0.30.0, 0.32.0, 0.33.0."""

OPERATORS = ("_C_cache_ops", "_C")
"""The namespaces of the operators in torch.ops. Tried on 0.33.0."""


def operator(name: str) -> Any:
    """Return a registered operator, or None if no operator has that name."""
    import torch

    found = (getattr(getattr(torch.ops, namespace), name, None) for namespace in OPERATORS)
    return next((operator for operator in found if operator is not None), None)


def arguments(name: str) -> list[str]:
    """Return the argument names of a registered operator."""
    return [argument.name for argument in operator(name).default._schema.arguments]


def pinning() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return, for each imported module of vLLM with a name of PINNED, its namespace and the values that say no."""
    # Not by a list of modules: whoever imports one of them has a copy, and which modules do differs by release.
    inside = [module for name, module in sys.modules.items() if name.partition(".")[0] == "vllm"]
    spaces: list[dict[str, Any]] = [getattr(module, "__dict__", {}) for module in inside]
    found = [(space, {name: no for name, no in PINNED.items() if name in space}) for space in spaces]
    return [(space, no) for space, no in found if no]


def installed() -> bool:
    """Return whether vLLM is installed, without importing it."""
    return importlib.util.find_spec("vllm") is not None


def installed_at() -> Path | None:
    """Return the folder of the installed package, without importing it, or None."""
    found = importlib.util.find_spec("vllm")
    places = list(found.submodule_search_locations or ()) if found else []
    return Path(places[0]) if places else None


def why_not_importable() -> str | None:
    """Return why the installed release cannot be imported, in one line. None if it can, or if there is no release."""
    try:
        for module in (MLA,) if installed() else ():
            importlib.import_module(module)
    except ModuleNotFoundError as error:
        return None if (error.name or "").startswith("vllm") else f"{error}"
    except Exception as error:  # whatever a package raises that was built for other libraries
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return None


def first_of(places: list[tuple[str, str]]) -> Any:
    """Return the first (module, dotted attribute) that exists in the installed release, or None."""
    for module, attribute in places if installed() else ():
        try:
            found: Any = importlib.import_module(module)
            for name in attribute.split("."):
                found = getattr(found, name)
        except Exception:  # not only ImportError: see why_not_importable
            continue
        return found
    return None


FLASHMLA = "vllm.v1.attention.backends.mla.flashmla_sparse"
KIMI = "vllm.models.kimi_k3.nvidia.mla"

GATHER_SITES = {
    "dense": [(MLA, "MLACommonBaseImpl._compute_prefill_context"), (MLA, "MLACommonImpl._compute_prefill_context")],
    "dcp": [
        (MLA, "MLACommonBaseImpl._context_parallel_compute_prefill_context"),
        (MLA, "MLACommonImpl._context_parallel_compute_prefill_context"),
    ],
    "kimi_k3": [(KIMI, "MultiHeadLatentAttention._compute_prefill_context")],
    "sparse_masked": [(SPARSE_MLA, "SparseMLACommonImpl._compute_context_mha")],
    "sparse_topk": [(FLASHMLA, "FlashMLASparseImpl._forward_fp8_kv_separate_prefill_decode")],
}
"""The methods that choose a gather, by site. Tried on 0.30.0, 0.32.0, 0.33.0."""

TOPK_WORKSPACE = "prefill_bf16_workspace"
"""The attribute that holds the workspace of a sparse_topk layer. 0.32.0 and 0.33.0 ask the workspace manager for one at
each call. Tried on 0.30.0, 0.32.0, 0.33.0."""

MERGING = [("vllm.v1.attention.ops.merge_attn_states", "merge_attn_states")]
"""The function that merges two partial results. Tried on 0.30.0, 0.32.0, 0.33.0."""

GATHER_OPERATORS = "ops"
"""The name of the operators' module in the modules of GATHER_SITES. Tried on 0.30.0, 0.32.0, 0.33.0."""

ENGINE = "vllm.engine.arg_utils"
"""The module that turns command-line arguments into a configuration. Tried on 0.30.0, 0.32.0, 0.33.0."""

STARTUP = {
    "platforms": [("vllm.platforms", "__dict__")],
    "capability": [("vllm.platforms.interface", "DeviceCapability")],
    "cuda": [("vllm.platforms.cuda", "NonNvmlCudaPlatform")],
    "models": [("vllm.model_executor.models.registry", "ModelRegistry")],
    "model information": [("vllm.model_executor.models.registry", "_ModelInfo")],
    "arguments": [(ENGINE, "EngineArgs")],
    "configuration in use": [("vllm.config", "set_current_vllm_config")],
    "groups": [("vllm.distributed.parallel_state", "__dict__")],
    "workspace": [("vllm.v1.worker.workspace", "init_workspace_manager")],
    "backend": [("vllm.v1.attention.selector", "get_attn_backend")],
    "layer": [(MLA, "MLAAttention")],
}
"""The parts of starting up. Tried on 0.30.0, 0.32.0, 0.33.0."""

EXTENSIONS = [
    "vllm._C_stable_libtorch",
    "vllm.vllm_flash_attn._vllm_fa2_C",
    "vllm.vllm_flash_attn._vllm_fa3_C",
    "vllm._flashmla_C",
    "vllm._flashmla_extension_C",
]
"""The compiled modules that starting up imports and does not call. Tried on 0.30.0, 0.32.0, 0.33.0."""

DIRECT_COLLECTIVES = [f"VLLM_USE_DIRECT_DCP_{what}" for what in ("A2A", "Q_GATHER", "KV_GATHER")]
"""The environment variables that switch off parts that need several devices. Tried on 0.30.0, 0.32.0, 0.33.0."""
