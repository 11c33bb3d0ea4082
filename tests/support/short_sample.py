"""The beginning of the sample: a scenario for what needs a log, but not all of that one."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from pathlib import Path

from replay.audit.source import log_files, open_log

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"


def write_first_lines(path: Path, count: int) -> None:
    """Write the first lines of the sample's log."""
    with ExitStack() as held:
        (file,) = log_files(sorted(SAMPLE.glob("audit.*")), path.parent, held)
        stream = held.enter_context(open_log(file))
        path.write_bytes(b"".join(itertools.islice(stream, count)))


def make_scenario(directory: Path, count: int) -> Path:
    """A directory with the first lines of the log beside the sets and the snapshot of the sample."""
    directory.mkdir(parents=True, exist_ok=True)
    write_first_lines(directory / "audit.jsonl", count)
    for name in ("current", "candidate", "cluster.jsonl.zst"):
        (directory / name).symlink_to(SAMPLE / name)
    return directory
