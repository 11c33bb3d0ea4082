"""Lines of text that hold a document: each line of a file becomes one line, so that all keep their places.

A line that holds nothing of a document becomes one of another kind, and so does a part of a document that goes on in a later
line, so that it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

PART = "_part"
"""The field of a line that stands for a part of a document that a later line holds whole."""
_PART_LINE = b'{"%s":true}\n' % PART.encode()
_OTHER_LINE = b'{"kind":""}\n'
CONTAINER_LINE = re.compile(rb"\S+ (stdout|stderr) ([FP])(?::\S*)? ")


def after_prefix(lines: Iterable[bytes]) -> Iterator[bytes]:
    """What stands in each line from the first brace on."""
    for line in lines:
        start = line.find(b"{")
        if start >= 0:
            yield line[start:]
        else:
            yield _OTHER_LINE if line.strip() else line


def container_documents(lines: Iterable[bytes]) -> Iterator[bytes]:
    """What a container wrote, out of the lines of its runtime: a time, the stream, F for an end of line and P for a part.

    `k8s.io/cri-client/pkg/logs` states the form; a document stands where its last part does.
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
            yield _PART_LINE
            continue
        document = b"".join((*begun, content)) if begun else content
        yield document if document.lstrip().startswith(b"{") else _OTHER_LINE
    yield from (b"".join(begun) + b"\n" for begun in parts.values())
