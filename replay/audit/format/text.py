"""Lines of text that contain a document. Each line of a file becomes one line, so that line numbers stay.

A line without a document becomes a marked line, and so does a part of a document that continues later. Marked lines are
skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

PART = "_part"
"""Field of a line that replaces a part of a document. A later line has the whole document."""
PART_LINE = b'{"%s":true}\n' % PART.encode()
"""Replacement for a line that this reading leaves out."""
_OTHER_LINE = b'{"kind":""}\n'
CONTAINER_LINE = re.compile(rb"\S+ (stdout|stderr) ([FP])(?::\S*)? ")


def after_prefix(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the text of each line from the first brace on."""
    for line in lines:
        start = line.find(b"{")
        if start >= 0:
            yield line[start:]
        else:
            yield _OTHER_LINE if line.strip() else line


def container_documents(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the output of a container, from the lines of its runtime.

    A line has a time, the stream, F for an end of line or P for a part, and the text (`k8s.io/cri-client/pkg/logs`). A
    document replaces the line of its last part.
    """
    parts: dict[bytes, list[bytes]] = {}
    for line in lines:
        head = CONTAINER_LINE.match(line)
        if head is None:
            yield _OTHER_LINE if line.strip() else line
            continue
        content, begun = line[head.end() :], parts.pop(head[1], [])
        if head[2] == b"P":
            parts[head[1]] = [*begun, content.removesuffix(b"\n").removesuffix(b"\r")]
            yield PART_LINE
            continue
        document = b"".join((*begun, content)) if begun else content
        yield document if document.lstrip().startswith(b"{") else _OTHER_LINE
    yield from (b"".join(begun) + b"\n" for begun in parts.values())
