"""Judge vLLM's compiled operators alone: `vllm-ops:PATH`, where PATH is its _C_stable_libtorch.abi3.so."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from conformance.memory import TorchMemory
from conformance.targets.base import GATHERS, MERGE, WRITES, Target
from conformance.targets.vllm_release import names, probes
from reference.profiles import DEFAULT, Profile

WRITER, MERGER = "concat_and_cache_mla", "merge_attn_states"
OPERATORS = (*dict.fromkeys(operator for _, _, operator in GATHERS.values()), WRITER, MERGER)


class CompiledOperators(Target):
    """Run the operators that a library registers, on a GPU. If it cannot be loaded, only its schemas are judged."""

    library: Path | None
    """The path of the library, or None."""

    @cached_property
    def schemas(self) -> dict[str, str]:  # type: ignore[override]
        """The schemas by operator: as registered if the library can be loaded, else as the file's strings have them."""
        if self.library is None:
            return {}
        if self.why_not_loaded is None:
            return {name: _registered(name) for name in OPERATORS if names.operator(name)}
        return schemas_in(self.library)

    def operator_capabilities(self) -> frozenset[str]:
        """Return the capabilities that the schemas have."""
        found: set[str] = set()
        for bare, with_starts, operator in GATHERS.values():
            if operator in self.schemas:
                found |= {bare, with_starts} if "seq_starts" in self.schemas[operator] else {bare}
        found |= set(WRITES.values() if WRITER in self.schemas else ())
        return frozenset(found | ({MERGE} if MERGER in self.schemas else set()))

    def operator_hindrance(self, capability: str) -> str | None:
        """Return why the library cannot be loaded, or the operator's refusal of this device, or None."""
        if self.why_not_loaded:
            return self.why_not_loaded
        if capability not in self._hindrances:
            self._hindrances[capability] = probes.refusal_of_device(self, capability)
        return self._hindrances[capability]

    def operator_offers(self) -> frozenset[str]:
        """Return `cuda` and the device's architecture if the library can be loaded, else an empty set."""
        if self.library is None or self.why_not_loaded:
            return frozenset()
        import torch

        major, minor = torch.cuda.get_device_capability()
        return frozenset({"cuda", f"sm_{major}{minor}"})

    def operator_receipt(self) -> dict[str, Any]:
        """Return the library's name, its SHA-256 and its schemas."""
        if self.library is None:
            return {}
        digest = hashlib.sha256(self.library.read_bytes()).hexdigest()
        return {"library": self.library.name, "sha256": digest, "schemas": self.schemas}

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """See Target."""
        starts = () if seq_starts is None else (seq_starts,)
        operator = self._operator("cp_gather_and_upconvert_nvfp4_kv_cache")
        operator(src_cache, dst, block_table, workspace_starts, batch_size, *starts)

    def cp_gather_and_upconvert_fp8_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        """See Target. seq_starts is always passed, since the released operator has no default for it."""
        operator = self._operator("cp_gather_and_upconvert_fp8_kv_cache")
        operator(src_cache, dst, block_table, workspace_starts, batch_size, seq_starts)

    def gather_and_maybe_dequant_cache(
        self,
        src_cache: Any,
        dst: Any,
        block_table: Any,
        cu_seq_lens: Any,
        token_to_seq: Any,
        num_tokens: int,
        kv_cache_dtype: str,
        scale: Any,
        seq_starts: Any = None,
    ) -> None:
        """See Target. seq_starts is always passed, since the released operator has no default for it."""
        operator = self._operator("gather_and_maybe_dequant_cache")
        operator(src_cache, dst, block_table, cu_seq_lens, token_to_seq, num_tokens, kv_cache_dtype, scale, seq_starts)

    def concat_and_cache_mla(
        self, kv_c: Any, k_pe: Any, kv_cache: Any, slot_mapping: Any, kv_cache_dtype: str, scale: Any
    ) -> None:
        """See Target."""
        self._operator(WRITER)(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale)

    def merge_attn_states(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any = None,
    ) -> None:
        """See Target. The released operator takes output_lse second, and further arguments, passed as None."""
        more = names.arguments(MERGER)[6:]
        operator = self._operator(MERGER)
        operator(output, output_lse, prefix_output, prefix_lse, suffix_output, suffix_lse, *(None for _ in more))

    @cached_property
    def why_not_loaded(self) -> str | None:
        """The reason why the library cannot be loaded here, in one line, or None if it is loaded."""
        import torch

        if not torch.cuda.is_available():
            return "torch sees no CUDA device"
        try:
            torch.ops.load_library(str(self.library))  # type: ignore[no-untyped-call]
        except (OSError, RuntimeError) as error:
            reason = error.__cause__ or error
            return f"{self.library} cannot be loaded: {str(reason).splitlines()[0]}"
        return None

    def _operator(self, name: str) -> Callable[..., None]:
        if self.why_not_loaded:
            raise RuntimeError(self.why_not_loaded)
        operator: Callable[..., None] = names.operator(name)
        return operator

    @cached_property
    def _hindrances(self) -> dict[str, str | None]:
        return {}


class VllmOpsTarget(CompiledOperators):
    """Judge a compiled library without the vLLM package."""

    is_gpu_code = True

    def __init__(self, path: str, *, profile: Profile = DEFAULT) -> None:
        """Take the path of the library and the profile of its writers.

        Raises:
            FileNotFoundError: If the file does not exist.
            TypeError: If the file has no schema of an operator in OPERATORS.

        """
        self.library = Path(path)
        if not self.library.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        if not self.schemas:
            raise TypeError(f"{path} registers none of {', '.join(OPERATORS)}")
        self.profile = profile
        variant = "" if profile == DEFAULT else f"-{profile.name}"
        self.name = f"vllm-ops{variant}:{path}"
        self.memory = torch_memory()

    @property
    def capabilities(self) -> frozenset[str]:  # type: ignore[override]
        """The capabilities that the schemas have."""
        return self.operator_capabilities()

    def hindrance(self, capability: str) -> str | None:
        """See Target."""
        return self.operator_hindrance(capability)

    def offers(self) -> frozenset[str]:
        """See Target."""
        able = {capability for capability in self.capabilities if self.hindrance(capability) is None}
        return self.operator_offers() | able

    def describe(self) -> str:
        """See Target."""
        assert self.library is not None
        if self.why_not_loaded:
            return f"{self.library.name}, of which the schemas alone are judged: {self.why_not_loaded}"
        import torch

        return f"{self.library.name} under torch {torch.__version__} on {torch.cuda.get_device_name()}"

    def receipt(self) -> dict[str, Any]:
        """See Target."""
        return {"device": self.describe(), **self.operator_receipt()}


def torch_memory() -> TorchMemory:
    """Return memory of torch tensors, on the GPU if there is one."""
    import torch

    return TorchMemory("cuda" if torch.cuda.is_available() else "cpu")


def installed_library() -> Path | None:
    """Return the compiled library of the installed release that contains the names of our operators, or None."""
    root = names.installed_at()
    libraries = sorted(root.glob("_C*.so")) if root else []
    return next((library for library in libraries if schemas_in(library)), None)


def _registered(name: str) -> str:
    # An argument that is written to is shown in a form that torch itself does not parse.
    shown = str(names.operator(name).default._schema)
    return re.sub(r"\(\$\d+! -> \)", "!", shown.partition("::")[2] or shown)


def schemas_in(path: Path) -> dict[str, str]:
    """Return the schemas of our operators among a file's strings, by operator. Runs of blanks become one blank."""
    content = path.read_bytes()
    found = {}
    for name in OPERATORS:
        match = re.search(rb"(?<!\w)%s\([ -~\s]*?\) -> \(\)" % name.encode(), content)
        if match:
            found[name] = re.sub(r"\s+", " ", match[0].decode())
    return found
