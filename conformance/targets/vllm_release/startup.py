"""Ask vLLM whether it refuses a configuration at startup, in a separate process.

That process, startup_server, makes vLLM's configuration, layer and metadata builder. It pretends a CUDA device of the
given compute capability.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import asdict
from functools import cached_property
from typing import Any

from conformance.targets.base import SERVE_STARTUP
from conformance.targets.vllm_release import names
from conformance.verdict import NotJudged
from reference.serving import Serving

HEADS, TENSOR_PARALLEL = 128, 8
"""The attention heads of the model that is started, and its tensor parallel size."""


class Refused(Exception):
    """Report vLLM's refusal, in its words."""


class Starting:
    """Serve `serve.startup` with the installed release."""

    def startup_capabilities(self) -> frozenset[str]:
        """Return serve.startup, if the release's engine can be found."""
        return frozenset({SERVE_STARTUP} if self._found else ())

    def startup_receipt(self) -> dict[str, Any]:
        """Return which parts of startup run and which are pretended."""
        return {"startup": f"arguments, layer, builder; pretended device, {HEADS // TENSOR_PARALLEL} heads a rank"}

    def start(self, config: Serving) -> None:
        """See Target. Raises Refused with vLLM's message, and NotJudged if the process gives no verdict."""
        answer = self._server.ask(config)
        if answer["verdict"] == "refused":
            raise Refused(answer["message"])
        if answer["verdict"] != "starts":
            raise NotJudged(answer["message"])

    @cached_property
    def _found(self) -> bool:
        try:
            return importlib.util.find_spec(names.ENGINE) is not None
        except ImportError:
            return False

    @cached_property
    def _server(self) -> Server:
        return Server()


class Server:
    """Hold the process and its answers."""

    def __init__(self) -> None:
        """Start the process."""
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
        environment["OMP_NUM_THREADS"] = "1"  # it forks
        self.answers: dict[Serving, dict[str, Any]] = {}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "conformance.targets.vllm_release.startup_server"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, config: Serving) -> dict[str, Any]:
        """Return the cached answer for a configuration: verdict ("starts", "refused" or "not judged") and message."""
        if config not in self.answers:
            self.answers[config] = self._ask(config)
        return self.answers[config]

    def _ask(self, config: Serving) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps(asdict(config)) + "\n")
            self.process.stdin.flush()
            answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        except (OSError, ValueError) as error:
            raise NotJudged(f"the process that starts vLLM up ended: {self.process.poll()}") from error
        return answer

    def __del__(self) -> None:
        """End the process by closing its input."""
        if self.process.stdin and self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait()
