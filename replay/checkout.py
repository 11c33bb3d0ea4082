"""The Git checkout around a path, and links that lead out of it. The author of a pull request also controls its links."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path

from replay.errors import ReplayError

TRUST_VARIABLE = "REPLAY_TRUST_PROJECT"
"""Set where the user trusts the checkout; child processes inherit it."""
REPOSITORY = ".git"


def is_trusted() -> bool:
    """Return whether the user trusts the checkouts that this process reads."""
    return bool(os.environ.get(TRUST_VARIABLE))


def root_of(path: Path | str) -> Path | None:
    """Return the root of the repository around a path, as the path is written; None outside of a repository."""
    place = Path(os.path.abspath(path))  # noqa: PTH100 - a link is not followed: it is what is judged
    # The text of a query may be longer than a path can be. `Path.exists` raises for it.
    return next((each for each in (place, *place.parents) if os.path.exists(each / REPOSITORY)), None)  # noqa: PTH110


def is_inside(path: Path | str, root: Path) -> bool:
    """Return whether a path, after all links, is a root or below it, and not a file of Git."""
    real, real_root = Path(os.path.realpath(path)), Path(os.path.realpath(root))
    return real.is_relative_to(real_root) and REPOSITORY not in real.relative_to(real_root).parts


def require_inside(path: Path | str, named_by: Path | str) -> None:
    """Raise ReplayError for a path outside of the checkout whose file names it."""
    root = None if is_trusted() else root_of(named_by)
    if root is not None and os.path.lexists(path) and not is_inside(path, root):
        raise _leads_out(str(named_by), f"names `{path}`, which is outside of the checkout")


def require_links_inside(path: Path | str) -> None:
    """Raise ReplayError if a path of a checkout, or a link below it, leads out of the checkout.

    A pattern is checked for all its matches. A path outside of every checkout may lead anywhere.
    """
    for each in _expand(str(path)):
        root = None if is_trusted() else root_of(each)
        if root is None:
            continue
        link = next((link for link in _links(each, set()) if not is_inside(link, root)), None)
        if link is not None:
            raise _leads_out(link, f"leads out of the checkout, to `{os.path.realpath(link)}`")


def _leads_out(path: str, message: str) -> ReplayError:
    return ReplayError(f"{message}: run `replay trust` once, or give `replay --trust-project`", path=path)


def _expand(path: str) -> list[str]:
    """Return the path itself, or the matches of a pattern."""
    return [path] if os.path.lexists(path) or not glob.has_magic(path) else glob.glob(path, recursive=True)  # noqa: PTH207


def _links(path: str, seen: set[str]) -> Iterator[str]:
    """Yield the path and each link below it. Enters the directories behind links, each one once."""
    yield path
    directories = [path]
    while directories:
        directory = directories.pop()
        real = os.path.realpath(directory)
        if real in seen or not os.path.isdir(real):  # noqa: PTH112 - any text
            continue
        seen.add(real)
        try:
            entries = list(os.scandir(directory))
        except OSError:  # whoever reads it says so
            continue
        for entry in entries:
            if entry.is_symlink():
                yield entry.path
            if entry.name != REPOSITORY and entry.is_dir():
                directories.append(entry.path)
