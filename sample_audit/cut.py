"""Cut a recording of an API server down to some namespaces: `python sample_audit/cut.py RECORDING DESTINATION`.

Kept are all events of the namespaces below and all cluster-scoped ones, whole and in order, so that the history of every
object that is left is complete; of the expectations those of the kept requests. `sample_audit/shop` was made by it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pyarrow as pa

NAMESPACES = frozenset(
    {
        "",
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
        "prod-app-255",
        "prod-app-450",
        "prod-app-687",
        "prod-pay",
        "stage-app-387",
        "team-a",
        "tmp-app-293",
    }
)


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a `.zst` file."""
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        yield from stream.read().splitlines()


def write(path: Path, kept: list[bytes]) -> None:
    """One line each, compressed as far as zstd goes."""
    codec = pa.Codec("zstd", compression_level=22)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(codec.compress(b"".join(line + b"\n" for line in kept), asbytes=True))


def main(recording: Path, destination: Path) -> None:
    """Write the cut."""
    kept, ids = [], set()
    for line in lines(recording / "audit.jsonl.zst"):
        event = orjson.loads(line)
        if (event.get("objectRef") or {}).get("namespace", "") in NAMESPACES:
            kept.append(line)
            ids.add(event["auditID"])
    write(destination / "audit.jsonl.zst", kept)
    for expected in sorted((recording / "expected").glob("*.jsonl.zst")):
        rows = [line for line in lines(expected) if orjson.loads(line)["auditID"] in ids]
        if expected.name.startswith("attributes."):
            rows = rows[::4]
        write(destination / "expected" / expected.name, rows)
    write(destination / "cluster.jsonl.zst", list(lines(recording / "cluster.jsonl.zst")))
    for name in ("current", "candidate"):
        shutil.copytree(recording / name, destination / name, dirs_exist_ok=True, copy_function=shutil.copyfile)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
