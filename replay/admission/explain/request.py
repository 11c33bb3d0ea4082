"""Explains a request in the order of the chain: the mutating plugins pass by pass, then the validating ones."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replay.admission.chain import Chain
from replay.admission.explain.explanation import PassExplanation, PolicyExplanation, WebhookExplanation, refusal_of
from replay.admission.ordered.plugin import AdmitterWatch, Asking, CompiledPlugin, ValidatorWatch
from replay.kube.admissionregistration import ManifestSet

MOST_PASSES = 2


class RequestExplanation(Struct, frozen=True):
    """Steps of one set in each mutating pass and in the validating phase, and its webhook calls."""

    passes: tuple[PassExplanation, ...] = ()
    policies: tuple[PolicyExplanation, ...] = ()
    webhooks: tuple[WebhookExplanation, ...] = ()


def explained_request(chain: Chain, asking: Asking, index: int, manifests: ManifestSet) -> RequestExplanation:
    """Explain the decision of the set at `index` of a chain about a request.

    The chain may lack some of the set's webhooks.
    """
    watcher = _Watcher(index, manifests, asking)
    chain.observe(index, asking, watcher)
    return watcher.explained()


class _Watcher:
    """Observer of one set's decision."""

    def __init__(self, index: int, manifests: ManifestSet, asking: Asking) -> None:
        self._where = index, manifests, asking
        self._admitters: list[AdmitterWatch] = []
        self._validators: list[ValidatorWatch] = []
        self._passes = 0

    def admitters(self, plugins: Sequence[CompiledPlugin]) -> Sequence[AdmitterWatch]:
        """Return the observed mutating steps."""
        admitters = (plugin.admitter_watch(*self._where) for plugin in plugins)
        self._admitters = [each for each in admitters if each is not None]
        return self._admitters

    def validators(self, plugins: Sequence[CompiledPlugin]) -> Sequence[ValidatorWatch]:
        """Return the observed validating steps."""
        validators = (plugin.validator_watch(*self._where) for plugin in plugins)
        self._validators = [each for each in validators if each is not None]
        return self._validators

    def explained(self) -> RequestExplanation:
        """Return the explanation."""
        passes, webhooks, refused = [], [], ""
        for number in range(1, MOST_PASSES + 1):
            parts = []
            for watch in self._admitters:
                parts.append(watch.explained(number, refused))
                # The first refusal ends the chain (`chainAdmissionHandler.Admit`).
                refused = refused or refusal_of(watch.effects.denials)
            policies = tuple(policy for part in parts for policy in part.policies)
            called = tuple(name for part in parts for name in part.called)
            webhooks += [webhook for part in parts for webhook in part.webhooks]
            passes.append(PassExplanation(number, policies, called))
        validated = []
        for validator in self._validators:
            validated.append(validator.explained(refused))
            denials = validator.denials
            refused = refused or (f"`{denials[0].policy}` denies the request" if denials else "")
        return RequestExplanation(
            tuple(each for each in passes if each.policies or each.webhooks),
            tuple(policy for part in validated for policy in part.policies),
            (*webhooks, *(webhook for part in validated for webhook in part.webhooks)),
        )
