"""What `replay convert` wrote, what it left, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from replay.manifests.convert import Conversion
from replay.report.render.document import inert, plural


def conversion_lines(
    conversion: Conversion, paths: Sequence[Path], configuration: Path | None, server_directory: str
) -> Iterator[str]:
    """Lines for a terminal: a file with its objects, what is left with its place first, then the next steps."""
    for path, file in zip(paths, conversion.files, strict=True):
        names = ", ".join(f"{each['kind']}/{each['metadata']['name']}" for each in file.objects)
        yield f"{path}: {inert(names)}"
    for left in conversion.left:
        yield f"{inert(left.text)}"
    for hint in conversion.hints:
        yield f"note: {inert(hint)}"
    counts = f"{plural(len(paths), 'file')} written"
    yield f"{counts}, {plural(len(conversion.left), 'object')} left" if conversion.left else counts
    if configuration is None:
        return
    out = configuration.parent
    yield f"{configuration}: names the directories below {server_directory}; next:"
    yield f"  replay run LOG --current NOW --candidate {out}   what the API objects did not see, before they were there or while they were gone"
    yield f"  copy {out} to {server_directory} of each API server, start it with"
    yield f"  --admission-control-config-file={server_directory}/{configuration.name}, then delete the objects in the API"
