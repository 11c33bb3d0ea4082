"""DefaultTolerationSeconds (`plugin/pkg/admission/defaulttolerationseconds/admission.go`): how long pods stay on lost nodes."""

from __future__ import annotations

from collections.abc import Mapping

from replay.admission.builtin.plugin import CREATE_UPDATE, Plugin, Refusal, Review
from replay.errors import ManifestError
from replay.json import JSON

_TAINTS = {
    "node.kubernetes.io/not-ready": "default-not-ready-toleration-seconds",
    "node.kubernetes.io/unreachable": "default-unreachable-toleration-seconds",
}
_DEFAULT_SECONDS = 300


class DefaultTolerationSeconds(Plugin):
    """Two tolerations of `NoExecute`, each unless the pod tolerates that taint already, whatever the operator."""

    name = "DefaultTolerationSeconds"
    operations = CREATE_UPDATE
    concerns = (("", ("pods",)),)
    flags = tuple(_TAINTS.values())
    is_on_by_default = True

    def __init__(self, seconds: Mapping[str, int]) -> None:
        """`seconds` by taint."""
        self._seconds = seconds

    @classmethod
    def configured(cls, configuration: JSON | None, flags: Mapping[str, str]) -> DefaultTolerationSeconds:
        """See `Plugin.configured`; the plugin has flags and no document."""
        del configuration
        return cls({taint: _seconds(flags, flag) for taint, flag in _TAINTS.items()})

    def admit(self, review: Review) -> Refusal | None:
        """Append what is lacking."""
        if not review.is_resource("", "pods"):
            return None
        spec = review.object["spec"]
        tolerations = spec.get("tolerations") or []
        lacking = [
            {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            for taint, seconds in self._seconds.items()
            if not any(_tolerates(each, taint) for each in tolerations)
        ]
        if lacking:
            spec["tolerations"] = [*tolerations, *lacking]
        return None


def _tolerates(toleration: JSON, taint: str) -> bool:
    return (toleration.get("key") or "") in ("", taint) and (toleration.get("effect") or "") in ("", "NoExecute")


def _seconds(flags: Mapping[str, str], flag: str) -> int:
    text = str(flags.get(flag, _DEFAULT_SECONDS))
    try:
        return int(text, 0)
    except ValueError:
        message = f'invalid argument "{text}" for "--{flag}" flag: strconv.ParseInt: parsing "{text}": invalid syntax'
        raise ManifestError(message) from None
