"""The beginning of a zstd file, whatever its lines are."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from replay.audit.engine import connect
from replay.audit.format.recognise import HEAD, head_of
from replay.audit.source import log_files

EVENT = b'{"kind":"Event"}'
LONG = b'{"x":"' + b"y" * (5 << 20) + b'"}'
TOO_LONG = b'{"x":"' + b"y" * (20 << 20) + b'"}'

ROWS = {
    "nothing": (b"", b""),
    "few lines": (b"\n".join([EVENT] * 3), b"\n".join([EVENT] * 3)),
    "many lines": (EVENT + b"\n" + (EVENT + b"\n") * 100_000, b"\n".join([EVENT] * 32)),
    "blank lines": (b"\n\n" + EVENT + b"\n", EVENT),
    "a long line first": (LONG + b"\n" + EVENT + b"\n", LONG[:HEAD] + b"\n" + EVENT),
    "a long line later": (EVENT + b"\n" + LONG + b"\n", EVENT + b"\n" + LONG[:HEAD]),
    "a long line without an end": (LONG, LONG[:HEAD]),
    "a long line after what is looked at": ((EVENT + b"\n") * 200_000 + LONG, b"\n".join([EVENT] * 32)),
    "a line that is too long": (TOO_LONG + b"\n", b""),
    "no text": (b"\xff\xfe\n" + EVENT + b"\n", b""),
}


@pytest.mark.parametrize(("content", "head"), ROWS.values(), ids=ROWS)
def test_head(content: bytes, head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "audit.zst"
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(content)
    with ExitStack() as held:
        (file,) = log_files([path], tmp_path, held)
        assert head_of(file, connect(str(tmp_path), 1)) == head
