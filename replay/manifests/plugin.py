"""The four admission plugins that read static manifests, and the kinds that each accepts."""

from __future__ import annotations

from enum import StrEnum

from replay.manifests.go_type.scheme import Registered


class Plugin(StrEnum):
    """A plugin by its name in an AdmissionConfiguration."""

    VALIDATING_ADMISSION_POLICY = "ValidatingAdmissionPolicy"
    MUTATING_ADMISSION_POLICY = "MutatingAdmissionPolicy"
    VALIDATING_ADMISSION_WEBHOOK = "ValidatingAdmissionWebhook"
    MUTATING_ADMISSION_WEBHOOK = "MutatingAdmissionWebhook"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds it accepts, in the order in which it holds their objects."""
        if self.is_webhook:
            return (f"{self.value.removesuffix('AdmissionWebhook')}WebhookConfiguration",)
        return (self.value, f"{self.value}Binding")

    @property
    def is_webhook(self) -> bool:
        """Whether it calls webhooks; the other two evaluate policies."""
        return self.value.endswith("Webhook")

    @property
    def directory(self) -> str:
        """The name of its subdirectory in a set of ours."""
        letter = "v" if self.value.startswith("Validating") else "m"
        return f"{letter}wc" if self.is_webhook else f"{letter}ap"

    def accepts(self, registered: Registered) -> bool:
        """Whether it takes objects (or a typed list) of that kind; only those of `v1`."""
        return registered.package == "v1" and registered.kind.removesuffix("List") in self.kinds


CHAIN_ORDER = (
    Plugin.MUTATING_ADMISSION_POLICY,
    Plugin.MUTATING_ADMISSION_WEBHOOK,
    Plugin.VALIDATING_ADMISSION_POLICY,
    Plugin.VALIDATING_ADMISSION_WEBHOOK,
)
"""The order in which the server makes the plugins and asks them."""
