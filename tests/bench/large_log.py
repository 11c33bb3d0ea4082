"""Make a log of any size out of the recording `bench`: copies with other names, uids, audit IDs and days.

    python tests/bench/large_log.py DIRECTORY --gigabytes 10

writes one file a copy. Every copy has namespaces of its own, so that its objects are others; the clock moves a day a copy.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from pathlib import Path

import pyarrow as pa

BENCH = Path(__file__).parents[2].parent / "shared" / "recordings" / "bench" / "audit.jsonl.zst"
_DAY = b"2026-11-21T"


def bench_text(path: Path = BENCH) -> bytes:
    """The recording, decompressed."""
    with pa.input_stream(str(path), compression="zstd") as stream:
        return bytes(stream.read())


def shifted(text: bytes, copy: int) -> bytes:
    """One copy of a log; number 0 is the log itself."""
    if not copy:
        return text
    day = dt.date(2026, 11, 21) + dt.timedelta(days=copy)
    text = text.replace(_DAY, f"{day}T".encode())
    for key in (b"auditID", b"uid", b"namespace"):
        text = text.replace(b'"%s":"' % key, b'"%s":"c%d-' % (key, copy))
    return text


def write_log(directory: Path, size: int) -> list[Path]:
    """Files of at least `size` bytes together."""
    directory.mkdir(parents=True, exist_ok=True)
    text = bench_text()
    paths: list[Path] = []
    written = 0
    while written < size:
        path = directory / f"audit-{len(paths):04}.jsonl"
        written += path.write_bytes(shifted(text, len(paths)))
        paths.append(path)
    return paths


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--gigabytes", type=float, default=10)
    arguments = parser.parse_args()
    paths = write_log(arguments.directory, int(arguments.gigabytes * 1e9))
    sys.stdout.write(f"{len(paths)} files, {sum(path.stat().st_size for path in paths):,} bytes\n")


if __name__ == "__main__":
    main()
