"""Start vLLM for one configuration per line of standard input, as far as no GPU is needed, and print the result.

The code that decides is vLLM's. The command-line arguments become vLLM's configuration. An attention layer is made of
it, which chooses a backend, and a metadata builder is made of the layer. These parts are pretended: a CUDA device, by a
platform that answers for it and says that memory cannot be pinned; process groups; compiled extensions that cannot be
loaded; and facts that vLLM reads from the model's code. Each configuration runs in a separate process.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import select
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from conformance.targets.vllm_release import names
from conformance.targets.vllm_release.startup import HEADS, TENSOR_PARALLEL

NOPE, VALUE, TOPK = 128, 128, 2048
REFUSALS = (ValueError, NotImplementedError)
"""The exceptions of a refusal. Any other exception means that a pretended part does not fit."""

COMMON = {
    "hidden_size": 1024,
    "intermediate_size": 1024,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
MLA = {
    "num_key_value_heads": HEADS,
    "q_lora_rank": 256,
    "qk_nope_head_dim": NOPE,
    "v_head_dim": VALUE,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 128,
    "first_k_dense_replace": 1,
}
INDEXER = {"index_topk": TOPK, "index_head_dim": 128, "index_n_heads": 64}


class Group:
    """Stand for a process group of vLLM."""

    rank = rank_in_group = 0
    device_group = cpu_group = None
    is_first_rank = is_last_rank = True

    def __init__(self, name: str, ranks: int) -> None:
        """Make this process the first rank."""
        self.unique_name, self.world_size, self.ranks = name, ranks, list(range(ranks))

    def all_gather(self, tensor: Any, *_: Any, **__: Any) -> Any:
        """Return the tensor unchanged, as with one rank."""
        return tensor


class Inspected:
    """Stand for a model in vLLM's registry. The only fact about it is that it generates text."""

    def __init__(self, kind: Any, architecture: str) -> None:
        """Take `kind`, the class of the registry's facts about a model."""
        true = {"is_text_generation_model", "supports_pp"}
        values = {field.name: field.name in true for field in dataclasses.fields(kind)}
        self.info = kind(**{**values, "architecture": architecture})

    def inspect_model_cls(self) -> Any:
        """Return the facts that the registry reads from the model's code."""
        return self.info


def model(config: dict[str, Any]) -> dict[str, Any]:
    """Return the config.json of a model: MLA, sparse if the backend is sparse, or Llama without MLA."""
    if not config["uses_mla"]:
        return {**COMMON, "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_key_value_heads": 8}
    geometry = {name: config[name] for name in ("kv_lora_rank", "qk_rope_head_dim")}
    if "SPARSE" in config["attention_backend"]:
        kind = {"architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32", **INDEXER}
    else:
        kind = {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3"}
    return {**COMMON, **MLA, **geometry, **kind}


def part(name: str) -> Any:
    """Return one of names.STARTUP. Raises ImportError if the release does not have it."""
    found = names.first_of(names.STARTUP[name])
    if found is None:
        raise ImportError(f"no {' or '.join('.'.join(place) for place in names.STARTUP[name])}")
    return found


def pretend() -> Callable[[tuple[int, int]], None]:
    """Import vLLM on a pretended device. Return a function that sets the device's compute capability."""
    os.environ.update(dict.fromkeys(names.DIRECT_COLLECTIVES, "0"))
    try:
        importlib.import_module(names.EXTENSIONS[0])
    except ImportError:  # all want the same libraries of the driver; trying each would leave halves of packages behind
        sys.modules.update({extension: ModuleType(extension) for extension in names.EXTENSIONS})
    answers: dict[str, Callable[..., Any]] = {
        "get_device_name": lambda *_: "pretended",
        "device_count": lambda *_: TENSOR_PARALLEL,
        "get_device_total_memory": lambda *_: 180 << 30,
        "is_fully_connected": lambda *_: True,
        "is_pin_memory_available": lambda *_: False,
        "num_compute_units": lambda *_: 148,
    }
    platforms, capability, found = part("platforms"), part("capability"), (10, 0)
    answers["get_device_capability"] = lambda *_, **__: capability(*found)
    pretended = {name: classmethod(answer) for name, answer in answers.items()}
    platforms["_current_platform"] = type("Pretended", (part("cuda"),), pretended)()
    for space, no in names.pinning():  # in 0.30.0 they have it by now from the real platform
        space.update(no)
    for architecture in ("DeepseekV32ForCausalLM", "DeepseekV3ForCausalLM", "LlamaForCausalLM"):
        part("models").models[architecture] = Inspected(part("model information"), architecture)
    for name in names.STARTUP:
        part(name)

    def use(other: tuple[int, int]) -> None:
        nonlocal found
        found = other

    return use


def start(config: dict[str, Any]) -> None:
    """Run all that vLLM does before it loads weights, as far as it concerns the cache. Errors of vLLM pass through."""
    ranks = config["decode_context_parallel_size"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(model(config)))
        settings = part("arguments")(
            model=folder,
            tokenizer=folder,
            skip_tokenizer_init=True,
            load_format="dummy",
            kv_cache_dtype=config["kv_cache_dtype"],
            attention_backend=config["attention_backend"] if config["uses_mla"] else None,
            tensor_parallel_size=TENSOR_PARALLEL,
            decode_context_parallel_size=ranks,
            distributed_executor_backend="mp",
            max_model_len=4096,
            enforce_eager=True,
            optimization_level=0,
        ).create_engine_config()
    for group, size in {"_TP": TENSOR_PARALLEL, "_PP": 1, "_PCP": 1, "_DCP": ranks}.items():
        part("groups")[group] = Group(group, size)
    device = torch.device("cpu")
    torch.set_default_dtype(torch.bfloat16)
    part("workspace")(device)
    with part("configuration in use")(settings):
        if not config["uses_mla"]:
            # The layer itself would ask for memory of a device.
            part("backend")(128, torch.bfloat16, settings.cache_config.cache_dtype)
            return
        layer = _mla_layer(config, settings)
        builder = layer.get_attn_backend().get_builder_cls()
        builder(layer.get_kv_cache_spec(settings), ["model.layers.0.self_attn"], settings, device)


def _mla_layer(config: dict[str, Any], settings: Any) -> Any:
    sparse = "SPARSE" in config["attention_backend"]
    topk = {"topk_indices_buffer": torch.zeros(1, TOPK, dtype=torch.int32)} if sparse else {}
    return part("layer")(
        num_heads=HEADS // TENSOR_PARALLEL,
        scale=1.0,
        qk_nope_head_dim=NOPE,
        qk_rope_head_dim=config["qk_rope_head_dim"],
        v_head_dim=VALUE,
        q_lora_rank=256,
        kv_lora_rank=config["kv_lora_rank"],
        kv_b_proj=torch.nn.Linear(8, 8),
        cache_config=settings.cache_config,
        prefix="model.layers.0.self_attn",
        use_sparse=sparse,
        **topk,
    )


def answer(config: dict[str, Any], use: Callable[[tuple[int, int]], None]) -> dict[str, str]:
    """Start a configuration and return the verdict ("starts", "refused" or "not judged") and the message."""
    major, minor = config["compute_capability"]
    use((major, minor))
    try:
        start(config)
    except REFUSALS as error:
        return {"verdict": "refused", "message": str(error)[:1500]}
    except Exception as error:
        return {"verdict": "not judged", "message": f"startup on this machine: {type(error).__name__}: {error}"[:1500]}
    return {"verdict": "starts", "message": ""}


def main() -> None:
    """Answer each line of standard input on standard output. Output of vLLM goes to standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    failed = ""
    try:
        use = pretend()
    except Exception as error:
        failed = f"vLLM cannot be imported on a pretended device: {type(error).__name__}: {error}"
    torch.set_num_threads(1)  # a fork does not have its parent's threads, and would wait for them
    for line in sys.stdin:
        config = json.loads(line)
        found = {"verdict": "not judged", "message": failed} if failed else forked(partial(answer, config, use))
        print(json.dumps(found), file=out, flush=True)


def forked(ask: Callable[[], dict[str, str]], seconds: float = 120) -> dict[str, str]:
    """Return the answer of a forked process. The process is killed if it does not answer in `seconds`."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, json.dumps(ask()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        if not select.select([pipe], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if not said:
        return {"verdict": "not judged", "message": f"startup ended with status {status}, without an answer"}
    answered: dict[str, str] = json.loads(said)
    return answered


if __name__ == "__main__":
    main()
