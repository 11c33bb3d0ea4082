"""The server's messages about invalid configurations."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from replay.errors import ManifestError
from replay.json import JSON


def aggregate(errors: Iterable[str]) -> str:
    """Several errors in one (`utilerrors.NewAggregate`): one as it is, more in brackets, each once."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def plain_list(values: Iterable[str]) -> str:
    """The values that are supported, sorted (`field.NotSupported`)."""
    return ", ".join(f'"{value}"' for value in sorted(values))


def check_kind(document: JSON | None, kind: str, api_versions: Collection[str]) -> None:
    """Raise ManifestError for a document that says of itself to be of a kind that the plugin does not know (`runtime.Scheme`)."""
    type_meta = document or {}
    kind_named, version = (str(type_meta.get(name) or "") for name in ("kind", "apiVersion"))
    if (kind_named or version) and (kind_named != kind or version not in api_versions):
        raise ManifestError(f'no kind "{kind_named}" is registered for version "{version}"')
