"""DefaultTolerationSeconds: tolerations for unavailable nodes.

Source: `plugin/pkg/admission/defaulttolerationseconds/admission.go`.
"""

from __future__ import annotations

from collections.abc import Mapping

from replay.admission.builtin.plugin import CREATE_UPDATE, Plugin, Refusal, Review
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.plugin import DEFAULT_SECONDS, NOT_READY, UNREACHABLE, with_tolerations

_TAINTS = {
    NOT_READY: "default-not-ready-toleration-seconds",
    UNREACHABLE: "default-unreachable-toleration-seconds",
}


class DefaultTolerationSeconds(Plugin):
    """Adds two tolerations of `NoExecute`, each unless the pod already tolerates that taint with any operator."""

    name = "DefaultTolerationSeconds"
    refuses = False
    operations = CREATE_UPDATE
    concerns = (("", ("pods",)),)
    flags = tuple(_TAINTS.values())

    def __init__(self, seconds: Mapping[str, int]) -> None:
        """`seconds` by taint."""
        self._seconds = seconds

    @classmethod
    def configured(cls, configuration: JSON | None, flags: Mapping[str, str]) -> DefaultTolerationSeconds:
        """See `Plugin.configured`. The plugin has flags, but no document."""
        del configuration
        return cls({taint: _seconds(flags, flag) for taint, flag in _TAINTS.items()})

    def admit(self, review: Review) -> Refusal | None:
        """Append the missing tolerations to the pod."""
        if review.is_resource("", "pods"):
            review.object["spec"].update(with_tolerations(review.object["spec"], self._seconds))
        return None


def _seconds(flags: Mapping[str, str], flag: str) -> int:
    text = str(flags.get(flag, DEFAULT_SECONDS))
    try:
        return int(text, 0)
    except ValueError:
        message = f'invalid argument "{text}" for "--{flag}" flag: strconv.ParseInt: parsing "{text}": invalid syntax'
        raise ManifestError(message) from None
