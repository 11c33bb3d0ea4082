"""The two plugins that call webhooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from replay.admission.conversion import Object
from replay.admission.decision import Decision
from replay.admission.effects import ADMITTED
from replay.admission.explain.explanation import PolicyExplanation
from replay.admission.explain.webhook import MutatingWebhookWatch, ValidatingWebhookWatch, with_explanations
from replay.admission.ordered.plugin import Admitter, Asking, CompiledPlugin, Context, RequestValidator, Unit, digest_of
from replay.admission.reads import PolicyReads, webhook_reads
from replay.admission.webhook.answer import DOWN, WebhookBackend, engines_of
from replay.admission.webhook.plugin import Backends, MutatingWebhookPlugin, validate
from replay.admission.webhook.webhooks import WebhookAdmission, WebhookHook
from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import ManifestSet, MatchResources, Phase
from replay.kube.attributes import Attributes
from replay.kube.engine_policy import engine_policies
from replay.kube.lister import Lister


class WebhookPlugin(Struct, frozen=True):
    """MutatingAdmissionWebhook or ValidatingAdmissionWebhook (`k8s.io/apiserver/pkg/admission/plugin/webhook`)."""

    phase: Phase
    is_visible_in_log = True
    differs_by_minor = True

    @property
    def name(self) -> str:
        """The name in an AdmissionConfiguration."""
        return f"{self.phase.capitalize()}AdmissionWebhook"

    @property
    def mutates(self) -> bool:
        """Return whether the plugin may change objects."""
        return self.phase == "mutating"

    def units(self, manifests: ManifestSet) -> Iterator[Unit]:
        """Yield a unit for each webhook, and for each policy of an engine behind it."""
        objects = repr(manifests.engine_objects) if manifests.engine_objects else ""
        reviews = "" if manifests.skips_reviews else "reviews"
        for configuration in manifests.configurations(self.phase):
            for webhook in configuration.webhooks:
                if webhook.rules:
                    match = MatchResources(resource_rules=webhook.rules, match_policy=webhook.match_policy)
                    answers = "" if webhook.name in manifests.down else "answers"
                    digest = digest_of(self.phase, configuration.name, repr(webhook), objects, answers, reviews)
                    for name in (configuration.name, *engine_policies(manifests.engine_objects, webhook.name)):
                        yield Unit(name, digest, match)

    def names(self, manifests: ManifestSet) -> Iterator[str]:
        """Return the names of the configurations."""
        return (configuration.name for configuration in manifests.configurations(self.phase))

    def reads(self, manifests: ManifestSet, version: KubernetesVersion) -> Iterator[PolicyReads]:
        """Return the reads of the webhooks: they read everything."""
        del version
        return webhook_reads(manifests.configurations(self.phase))

    def looked_up(self, manifests: ManifestSet) -> Iterator[tuple[str, str]]:
        """Yield the kinds of objects that the engines behind webhooks look up."""
        for engine in engines_of(manifests):
            yield from engine.looked_up()

    def compiled(self, sets: Sequence[ManifestSet], context: Context) -> CompiledPlugin:
        """Return the webhooks compiled for several sets."""
        return _Webhooks(sets, self.phase, context)


class _Webhooks:
    """The webhooks of one phase of several sets."""

    def __init__(self, sets: Sequence[ManifestSet], phase: Phase, context: Context) -> None:
        has_webhooks = any(each.configurations(phase) for each in sets)
        self.admits = has_webhooks and phase == "mutating"
        self.validates = has_webhooks and phase == "validating"
        self._context = context
        self._admission = WebhookAdmission(sets, phase, context.version, context.discovery, context.authorizer)
        self._engines = [engines_of(manifests) for manifests in sets]
        self._down = [dict.fromkeys(manifests.down, DOWN) for manifests in sets]

    def admitters(self, asking: Asking) -> Sequence[Admitter | None] | None:
        """Return, for each set, the webhooks that may be called in the mutating phase."""
        if not self.admits:
            return None
        candidates = self._admission.candidates(asking.sides[0].original)
        if not any(candidates):
            return None
        return [
            self._admitter(hooks, index, asking, self._backends(index, asking)) if hooks else None
            for index, hooks in enumerate(candidates)
        ]

    def _admitter(
        self, hooks: Sequence[WebhookHook], index: int, asking: Asking, backends: Backends
    ) -> MutatingWebhookPlugin:
        side = asking.sides[index]
        where = (side.original, side.lister)
        return MutatingWebhookPlugin(self._admission, hooks, self._context.patchers, where, backends)

    def _backends(self, index: int, asking: Asking) -> Backends:
        """Return the backends of a set's webhooks.

        An outage comes first, then backends that an option named, then the policy engines of the set.
        """
        down = self._down[index]
        if not self._engines[index]:
            return {**asking.backends, **down} if down else asking.backends
        lister, context = asking.sides[index].lister, self._context
        names = [hook.webhook.name for hook in self._admission.hooks[index]]
        own: dict[str, WebhookBackend] = {}
        for engine in self._engines[index]:
            backend = engine.backend(lister, context.discovery, context.patchers)
            own |= {name: backend for name in names if engine.answers_for(name)}
        return {**own, **asking.backends, **down}

    def validator(self, asking: Asking) -> RequestValidator | None:
        """Return the validating step of the webhooks that may be called."""
        if not self.validates:
            return None
        candidates = self._admission.candidates(asking.sides[0].attributes)
        return _WebhookRequest(self._admission, candidates, self._backends) if any(candidates) else None

    def admitter_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> MutatingWebhookWatch | None:
        """Return the observed mutating webhooks of one set."""
        if self._admission.phase != "mutating":
            return None
        side, admission = asking.sides[index], self._admission
        policies: list[PolicyExplanation] = []
        backends = with_explanations(self._backends(index, asking), policies)
        plugin = self._admitter(admission.candidates(side.original)[index], index, asking, backends)
        hooks, hooks_asked = admission.hooks_of(manifests), admission.hooks[index]
        return MutatingWebhookWatch(plugin, hooks, hooks_asked, side.original, side.lister, policies)

    def validator_watch(self, index: int, manifests: ManifestSet, asking: Asking) -> ValidatingWebhookWatch | None:
        """Return the observed validating webhooks of one set."""
        if self._admission.phase != "validating":
            return None
        watched = replace(asking, backends=self._backends(index, asking))
        return ValidatingWebhookWatch(self._admission, index, manifests, watched)


class _WebhookRequest:
    """The validating webhooks that may be called for one request."""

    def __init__(
        self,
        admission: WebhookAdmission,
        candidates: Sequence[Sequence[WebhookHook]],
        backends: Callable[[int, Asking], Backends],
    ) -> None:
        self._admission = admission
        self._candidates = candidates
        self._backends = backends

    def __call__(self, objects: Sequence[Object], asking: Asking, live: Sequence[bool]) -> Sequence[Decision]:
        """Return the result of each set's webhooks."""
        return [
            self._decision(hooks, side.attributes.with_object(value), side.lister, self._backends(index, asking))
            if hooks and is_live
            else ADMITTED
            for index, (hooks, value, side, is_live) in enumerate(
                zip(self._candidates, objects, asking.sides, live, strict=True)
            )
        ]

    def _decision(
        self, hooks: Sequence[WebhookHook], attributes: Attributes, lister: Lister, backends: Backends
    ) -> Decision:
        return validate(self._admission, hooks, (attributes, lister), backends).decision()
