"""Cut a recording of a kcp shard down to some workspaces: `python sample_audit/cut_kcp.py RECORDING DESTINATION`.

Kept are their writes of widgets, namespaces and parameters while the traffic ran, and what `before/` holds of them: policies as the set
in force, all else as the snapshot. `sample_audit/kcp` was made by it; its candidate changes `provider-intent`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import yaml

sys.path.insert(0, str(Path(__file__).parent))
from cut import lines, write

WORKSPACES = ("root.provider", "root.consumer-a", "root.local")
SINCE, UNTIL = "41:05", "41:24"
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def main(recording: Path, destination: Path) -> None:
    """Write the cut, without a candidate."""
    known = json.loads((recording / "workspaces.json").read_text())
    wanted = {each["cluster"] for each in known if each["path"].replace(":", ".") in WORKSPACES}
    write(
        destination / "audit.jsonl.zst", [line for line in lines(recording / "audit.jsonl.zst") if _kept(line, wanted)]
    )
    for workspace in WORKSPACES:
        for file in sorted((recording / "before" / workspace).glob("*.yaml")):
            side = "current" if file.name.startswith(("validating", "mutating")) else "cluster"
            _copy(file, destination / side / workspace / file.name)


def _kept(line: bytes, wanted: set[str]) -> bool:
    event = orjson.loads(line)
    about = event.get("objectRef") or {}
    if event.get("annotations", {}).get("kcp.io/cluster") not in wanted:
        return False
    if event["verb"] not in ("create", "update", "patch", "delete"):
        return False
    is_param = about.get("resource") == "configmaps" and "ca.crt" not in about.get("name", "")
    is_asked = about.get("apiGroup") == "example.org" or about.get("resource") == "namespaces" or is_param
    return is_asked and SINCE <= event["requestReceivedTimestamp"][14:19] <= UNTIL


def _copy(file: Path, to: Path) -> None:
    listed = yaml.safe_load(file.read_bytes())
    for obj in listed["items"]:
        obj["metadata"].get("annotations", {}).pop(_APPLIED, None)
        for key, _ in _certificates(obj):
            obj["data"][key] = "-----BEGIN CERTIFICATE-----\n...\n-----END CERTIFICATE-----\n"
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(yaml.safe_dump(listed, width=120), encoding="utf-8")


def _certificates(obj: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in (obj.get("data") or {}).items():
        if obj["kind"] == "ConfigMap" and "CERTIFICATE" in value:
            yield key, value


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
