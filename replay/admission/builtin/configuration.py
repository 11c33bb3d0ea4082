"""The server's messages about invalid configurations."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from replay.errors import ManifestError
from replay.json import JSON


def aggregate(errors: Iterable[str]) -> str:
    """Return several errors as one text, as by `utilerrors.NewAggregate`.

    A single error stays unchanged. Several are in brackets, without repetitions.
    """
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def plain_list(values: Iterable[str]) -> str:
    """Return supported values as a sorted list (`field.NotSupported`)."""
    return ", ".join(f'"{value}"' for value in sorted(values))


def check_kind(document: JSON | None, kind: str, api_versions: Collection[str]) -> None:
    """Raise ManifestError if a document names a kind that the plugin does not know (`runtime.Scheme`)."""
    type_meta = document or {}
    kind_named, version = (str(type_meta.get(name) or "") for name in ("kind", "apiVersion"))
    if (kind_named or version) and (kind_named != kind or version not in api_versions):
        raise ManifestError(f'no kind "{kind_named}" is registered for version "{version}"')
