"""DefaultTolerationSeconds (`plugin/pkg/admission/defaulttolerationseconds`): the time that pods stay on lost nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replay.json import JSON

DEFAULT_SECONDS: Final = 300
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
DEFAULTS: Final = {NOT_READY: DEFAULT_SECONDS, UNREACHABLE: DEFAULT_SECONDS}
"""The seconds by taint, unless server flags set others."""


def with_tolerations(spec: JSON, seconds: Mapping[str, int]) -> dict[str, JSON]:
    """Return the changed field of a pod's spec, with a toleration for each taint not tolerated yet.

    Empty if none is added.

    A taint is tolerated by key and effect, whatever the operator.
    """
    tolerations = spec.get("tolerations") or ()
    lacking = [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": number}
        for taint, number in seconds.items()
        if not any(_tolerates(each, taint) for each in tolerations)
    ]
    return {"tolerations": [*tolerations, *lacking]} if lacking else {}


def _tolerates(toleration: JSON, taint: str) -> bool:
    return (toleration.get("key") or "") in ("", taint) and (toleration.get("effect") or "") in ("", "NoExecute")
