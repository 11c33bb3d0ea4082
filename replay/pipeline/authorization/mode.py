"""`--authorization-mode`: the chain of a set that has no AuthorizationConfiguration."""

from __future__ import annotations

from pathlib import Path

import yaml

from replay.authorization.configuration import AuthorizationConfiguration, mode_configuration
from replay.authorization.validation import TYPES
from replay.errors import ReplayError

_OPTION = "--authorization-mode"
_ALWAYS_ALLOW = "AlwaysAllow"


def configuration_of_mode(text: str) -> AuthorizationConfiguration:
    """The chain of `Node,RBAC`, or of the flag in the manifest of a kube-apiserver at this path.

    A server without the flag allows everything. Raises ReplayError for a mode that there is not.
    """
    path = Path(text)
    flag = _flag_of(path) if path.is_file() else text
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
    """The flag of the first container that is called with it, empty if there is none."""
    try:
        manifest = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise ReplayError(f"no kube-apiserver manifest: {str(error).splitlines()[0]}", path=str(path)) from error
    containers = ((manifest if isinstance(manifest, dict) else {}).get("spec") or {}).get("containers") or ()
    words = [str(word) for each in containers for word in (*(each.get("command") or ()), *(each.get("args") or ()))]
    if not any("kube-apiserver" in word for word in words):
        raise ReplayError("no kube-apiserver manifest: no container calls it", path=str(path))
    for place, word in enumerate(words):
        if word.startswith(f"{_OPTION}="):
            return word.partition("=")[2]
        if word == _OPTION and place + 1 < len(words):
            return words[place + 1]
    return ""
