"""What is in a fixture, read without the project's own reader."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from words import plain

LEFT_OUT = "time", "versions", "receipt"
"""What a fixture says of the run, which is another each time."""


def of_fixture(path: Path) -> tuple[str, dict[str, Any]]:
    """A name and what is in a file of safetensors: its metadata and, by array, type, shape and hash.

    Eight digits of the name are a hash of, among others, the test's node id, with its folder. They have to be right;
    what is recorded are those that it would have without the folder.
    """
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    head, body = json.loads(content[8 : 8 + size]), content[8 + size :]
    metadata = head.pop("__metadata__")
    about = json.loads(metadata.pop("about"))
    arrays = {name: (each, body[slice(*each["data_offsets"])]) for name, each in sorted(head.items())}
    short = about | {"test": about["test"].rpartition("/")[2]}
    if "shrunk_from" not in about:
        if digits_of(metadata, about, arrays) not in path.name:
            sys.exit(f"{path.name}: its digits are no hash of its case, clauses, target and test")
        metadata["digits"] = digits_of(metadata, short, arrays)
    kept = {key: value for key, value in short.items() if key not in LEFT_OUT}
    kept["message"] = plain(about["message"]).splitlines()
    kept |= {"shrunk_from": nameless(about["shrunk_from"])} if "shrunk_from" in about else {}
    metadata["case"] = f"{hashlib.sha256(metadata['case'].encode()).hexdigest()} {metadata['case']:.2000}"
    hashes = {
        name: f"{each['dtype']} {each['shape']} {hashlib.sha256(raw).hexdigest()}"
        for name, (each, raw) in arrays.items()
    }
    return nameless(path.name), {**metadata, "about": kept, "arrays": hashes}


def nameless(name: str) -> str:
    """A fixture's name without its digits."""
    return re.sub(r"-[0-9a-f]{8}(?=[-.])", "", name)


def digits_of(metadata: dict[str, str], about: dict[str, Any], arrays: dict[str, Any]) -> str:
    """The digits in a fixture's name: of its case, clauses, target and test."""
    chosen = {name: about.get(name) for name in ("clauses", "target", "test")}
    of = [metadata["operator"], metadata["case"], chosen]
    found = hashlib.sha256(json.dumps(of, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())
    for name, (each, raw) in arrays.items():
        group, _, array = name.partition("/")
        if group == "case":
            bits = re.sub(r"\D", "", each["dtype"])
            dtype = (
                f"|{each['dtype'][0].lower()}1" if bits in ("", "8") else f"<{each['dtype'][0].lower()}{int(bits) // 8}"
            )
            found.update(f"{array} {dtype} {tuple(each['shape'])}".encode())
            found.update(raw)
    return found.hexdigest()[:8]
