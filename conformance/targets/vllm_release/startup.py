"""What vLLM refuses at startup: its own configuration, layer and metadata builder, made in a process of their own.

That process (startup_server) pretends a CUDA device of the compute capability asked for; see there.
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
"""Of the model that is started up."""


class Refused(Exception):
    """What vLLM said."""


class Starting:
    """The startup of the installed release."""

    def startup_capabilities(self) -> frozenset[str]:
        """What was found."""
        return frozenset({SERVE_STARTUP} if self._found else ())

    def startup_receipt(self) -> dict[str, Any]:
        """What is run and what is pretended."""
        return {"startup": f"arguments, layer, builder; pretended device, {HEADS // TENSOR_PARALLEL} heads a rank"}

    def start(self, config: Serving) -> None:
        """See Target."""
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
    """The process, and what it has answered."""

    def __init__(self) -> None:
        """Start it."""
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
        """Its answer: verdict ("starts", "refused" or "not judged") and message."""
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
        """End it: it reads until its input ends."""
        if self.process.stdin and self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait()
