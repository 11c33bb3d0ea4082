"""Make a log of any size out of the recording `bench`: copies with other names, uids, audit IDs and days.

    python tests/bench/large_log.py DIRECTORY --gigabytes 10

writes one file a copy: the next days of the same cluster. Applications, and the namespaces named after them, are others every day,
uids and audit IDs too; the clock moves a day a copy, and resource versions go on.
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
import sys
from pathlib import Path

import pyarrow as pa

BENCH = Path(__file__).parents[2].parent / "shared" / "recordings" / "bench" / "audit.jsonl.zst"
_DAY = b"2026-11-21T"
_NUMBERS = re.compile(rb'((?<=\bapp-)\d+|(?<=\bcm-)\d+|(?<=\bw-)\d+|(?<="resourceVersion":")[1-9]\d*)')
_NAMES = 10_000
_REVISIONS = 10_000_000


def bench_text(path: Path = BENCH) -> bytes:
    """The recording, decompressed."""
    with pa.input_stream(str(path), compression="zstd") as stream:
        return bytes(stream.read())


class Recording:
    """The recording, taken apart once where copies of it differ."""

    def __init__(self, text: bytes) -> None:
        """Find the numbers of names and resource versions; they stand at odd places between the rest."""
        self.pieces = _NUMBERS.split(text)
        self.is_revision = [piece.endswith(b'"resourceVersion":"') for piece in self.pieces[:-1:2]]

    def copy(self, number: int) -> bytes:
        """One copy; number 0 is the recording itself."""
        pieces = list(self.pieces)
        for index, is_revision in enumerate(self.is_revision):
            distance = _REVISIONS if is_revision else _NAMES
            pieces[2 * index + 1] = b"%d" % (int(pieces[2 * index + 1]) + number * distance)
        text = b"".join(pieces)
        if not number:
            return text
        day = dt.date(2026, 11, 21) + dt.timedelta(days=number)
        text = text.replace(_DAY, f"{day}T".encode())
        for key in (b"auditID", b"uid"):
            text = text.replace(b'"%s":"' % key, b'"%s":"c%d-' % (key, number))
        return text


def write_log(directory: Path, size: int) -> list[Path]:
    """Files of at least `size` bytes together."""
    directory.mkdir(parents=True, exist_ok=True)
    recording = Recording(bench_text())
    paths: list[Path] = []
    written = 0
    while written < size:
        path = directory / f"audit-{len(paths):04}.jsonl"
        written += path.write_bytes(recording.copy(len(paths)))
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
