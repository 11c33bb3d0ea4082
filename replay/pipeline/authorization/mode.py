"""`--authorization-mode`: the chain of a set that has no AuthorizationConfiguration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from replay.authorization.configuration import AuthorizationConfiguration, mode_configuration
from replay.authorization.validation import TYPES
from replay.errors import ReplayError
from replay.json import JSON

_OPTION = "--authorization-mode"
_CONFIGURATION = "--authorization-config"
_ALWAYS_ALLOW = "AlwaysAllow"


def configuration_of_mode(text: str) -> AuthorizationConfiguration:
    """The chain of `Node,RBAC`, or of the flag in the manifest of a kube-apiserver at this path.

    A server without the flag allows everything. Raises ReplayError for a mode that there is not, and for a manifest that names
    an AuthorizationConfiguration.
    """
    path = Path(text)
    is_path = path.exists() or path.suffix in (".yaml", ".yml", ".json") or "/" in text
    flag = _flag_of(path) if is_path else text
    modes = tuple(flag.split(",")) if flag else (_ALWAYS_ALLOW,)
    for mode in modes:
        if mode not in TYPES:
            raise ReplayError(
                f"authorization-mode `{mode}` is not a valid mode; there are: {', '.join(TYPES)}", path=_OPTION
            )
    if len(set(modes)) != len(modes):
        raise ReplayError(f"authorization-mode `{flag}` has a mode more than once", path=_OPTION)
    return mode_configuration(modes)


def _flag_of(path: Path) -> str:
    """Return the flag's values in the manifest, joined as the server does, empty if absent."""
    try:
        manifest = yaml.safe_load(path.read_bytes())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ReplayError(f"no kube-apiserver manifest: {str(error).splitlines()[0]}", path=str(path)) from error
    words = list(_words(manifest))
    if not any("kube-apiserver" in word for word in words):
        raise ReplayError("no kube-apiserver manifest: no container calls it", path=str(path))
    file = ",".join(_values(words, _CONFIGURATION))
    if file:
        reason = (
            f"the server reads its chain from {_CONFIGURATION}={file}: give that file as authorization.yaml of a set"
        )
        raise ReplayError(reason, path=str(path))
    return ",".join(_values(words, _OPTION))


def _words(manifest: JSON) -> Iterator[str]:
    """Yield the command lines of all containers. Values of a wrong type have none."""
    spec = manifest.get("spec") if isinstance(manifest, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    for container in containers if isinstance(containers, list) else ():
        for field in ("command", "args"):
            words = container.get(field) if isinstance(container, dict) else None
            yield from map(str, words if isinstance(words, list) else ())


def _values(words: Sequence[str], flag: str) -> Iterator[str]:
    for place, word in enumerate(words):
        if word.startswith(f"{flag}="):
            yield word.partition("=")[2]
        elif word == flag and place + 1 < len(words):
            yield words[place + 1]
