"""A request explained in the order of the chain: the plugins of the mutating phase pass by pass, then the validating ones."""

from __future__ import annotations

from dataclasses import dataclass

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.admission.explain.explanation import PassExplanation, PolicyExplanation, Validated, WebhookExplanation
from replay.admission.ordered.plugin import Asking
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Attributes


@dataclass(frozen=True, slots=True)
class MutatingPhase:
    """What the mutating phase did in each pass, and who was asked; `refused` says why nothing comes after it."""

    passes: tuple[PassExplanation, ...] = ()
    webhooks: tuple[WebhookExplanation, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class Explainer:
    """Explains a request to one chain."""

    chain: Chain
    asking: Asking

    def mutating(self, index: int, manifests: ManifestSet) -> MutatingPhase:
        """Both passes of a set, which stands at `index` in the chain; that may lack some of its webhooks."""
        watches = [
            each for plugin in self.chain.plugins if (each := plugin.watch(index, manifests, self.asking)) is not None
        ]
        passes: list[PassExplanation] = []
        webhooks: list[WebhookExplanation] = []
        value, refused = self.asking.sides[index].before.object, ""
        for number in (1, 2):
            policies: list[PolicyExplanation] = []
            called: list[str] = []
            again = False
            for watch in watches:
                step = watch.step(value, refused, reinvoke=number > 1)
                value, refused, again = step.object, step.refused, again or step.changed
                policies += step.policies
                webhooks += step.webhooks
                called += step.called
            passes.append(PassExplanation(number, tuple(policies), tuple(called)))
            if refused or not again:
                break
        told = tuple(each for each in passes if each.policies or each.webhooks)
        return MutatingPhase(told, tuple(webhooks), refused)

    def validating(
        self, index: int, manifests: ManifestSet, seen: Attributes, refused: str, decision: Decision
    ) -> Validated:
        """The validating phase of a set on what it is shown, in order.

        `refused` says why the request does not come to it, empty if it does; `decision` tells which plugin ends it.
        """
        policies: list[PolicyExplanation] = []
        webhooks: list[WebhookExplanation] = []
        for plugin in self.chain.plugins:
            found = plugin.validated(index, manifests, seen, self.asking, refused)
            if found is not None:
                policies += found.policies
                webhooks += found.webhooks
                own = {each.policy for each in found.policies}
                denying = next((each.policy for each in decision.denials if each.policy in own), "")
                refused = refused or (f"`{denying}` denies the request" if denying else "")
        return Validated(tuple(policies), tuple(webhooks))
