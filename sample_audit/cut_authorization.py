"""Cut a recording of authorization down to its first events: `python sample_audit/cut_authorization.py RECORDING DESTINATION`.

Kept are whole events in order, the answers of webhooks that they got, and what is expected of them. One changed state of RBAC is
kept as the objects that differ. `sample_audit/authorization` was made by it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import orjson
import yaml

sys.path.insert(0, str(Path(__file__).parent))
from cut import lines, write

EVENTS = 1200
STATE = "developers-read-only"


def main(recording: Path, destination: Path) -> None:
    """Write the cut."""
    events = list(lines(recording / "audit.jsonl.zst"))[:EVENTS]
    write(destination / "audit.jsonl.zst", events)
    ids = {orjson.loads(event)["auditID"] for event in events}
    last = max(orjson.loads(event)["stageTimestamp"] for event in events)
    answers = [line for line in lines(recording / "sars.jsonl.zst") if orjson.loads(line)["time"] <= last]
    write(destination / "sars.jsonl.zst", answers)
    for side in ("current", "candidate"):
        (destination / side).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(recording / f"{side}.yaml", destination / side / "authorization.yaml")
        (destination / side / "authorization.yaml").chmod(0o644)
    write(destination / "cluster.jsonl.zst", list(lines(recording / "cluster.jsonl.zst")))
    expected = (line for line in lines(recording / "expected.jsonl.zst") if orjson.loads(line)["auditID"] in ids)
    write(destination / "expected.jsonl.zst", list(expected))
    changed = set(orjson.loads((recording / "rbac" / STATE / "difference.json").read_bytes())["changed"])
    objects = yaml.safe_load_all((recording / "rbac" / STATE / "rbac" / "all.yaml").read_bytes())
    kept = [each for each in objects if _named(each) in changed]
    (destination / STATE).mkdir(exist_ok=True)
    (destination / STATE / "bindings.yaml").write_text(yaml.safe_dump_all(kept), encoding="utf-8")


def _named(obj: dict[str, Any]) -> str:
    """An object as the differences of a state name it: kind, namespace if it has one, name."""
    metadata = obj["metadata"]
    return " ".join(part for part in (obj["kind"], metadata.get("namespace"), metadata["name"]) if part)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
