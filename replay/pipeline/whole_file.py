"""Output files of commands, put in place only when complete, with the mode of the file that they replace."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from replay.errors import ReplayError, reason_of

STDOUT = "-"


@contextmanager
def whole_file(path: Path, what: str) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` once it is complete. Raise ReplayError, which names `what`.

    It gets the mode of the file that it replaces. A device, a pipe and standard output (`-`) are written directly.
    """
    if str(path) == STDOUT:
        yield sys.stdout.buffer
        return
    target = path.resolve()  # a symbolic link stays one
    partial = target.with_name(f".{target.name}.partial")
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        with partial.open("wb") as file:
            yield file
        if target.exists():
            partial.chmod(stat.S_IMODE(target.stat().st_mode))
        partial.replace(target)
    except BrokenPipeError:
        raise  # the reader has closed the pipe
    except OSError as error:
        raise ReplayError(f"{what} cannot be written: {reason_of(error)}", path=str(path)) from error
    finally:
        partial.unlink(missing_ok=True)


def write_files(directory: Path, contents: Mapping[str, str], what: str) -> None:
    """Write texts by name into a directory, which is created. Raise ReplayError, which names `what`."""
    try:
        for parent in {directory, *((directory / name).parent for name in contents)}:
            parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReplayError(f"{what} cannot be written: {reason_of(error)}", path=str(directory)) from error
    for name, content in contents.items():
        with whole_file(directory / name, what) as file:
            file.write(content.encode())


def put(pieces: Iterable[str], out: Path | None) -> None:
    """Print a text, or write it to a file that is put in place once complete. Raise ReplayError if that fails."""
    if out is None or str(out) == STDOUT:
        sys.stdout.writelines(pieces)
        return
    with whole_file(out, "the output") as file:
        file.writelines(piece.encode("utf-8", "surrogateescape") for piece in pieces)
