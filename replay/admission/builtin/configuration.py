"""How the server words what is wrong with a configuration."""

from __future__ import annotations

from collections.abc import Iterable


def aggregate(errors: Iterable[str]) -> str:
    """Several errors in one (`utilerrors.NewAggregate`): one as it is, more in brackets, each once."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def plain_list(values: Iterable[str]) -> str:
    """The values that are supported, sorted (`field.NotSupported`)."""
    return ", ".join(f'"{value}"' for value in sorted(values))
