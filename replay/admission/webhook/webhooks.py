"""Selection of the webhooks to call for a request.

Nothing is called here. Several manifest sets are decided at once, so that shared webhooks are matched once.

Source: `k8s.io/apiserver/pkg/admission/plugin/webhook/generic.ShouldCallHook`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from replay.admission.conversion import ObjectConverter
from replay.admission.decision import Denial, WebhookCall
from replay.admission.inputs import BUDGET, MATCHES, Inputs, MatchConditionsResult, match_conditions
from replay.admission.observer import ConditionsObserver, WebhookObserver
from replay.admission.request import admission_request
from replay.cellib.composition import Evaluation
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.library.authorizer import authorizer_bindings
from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import ManifestSet, MatchResources, Phase, Webhook
from replay.kube.attributes import Attributes, Missing
from replay.kube.authorizer import Authorizer
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import Lister
from replay.kube.rbac_authorizer import RBACAuthorizer
from replay.matching.matcher import INTERNAL_ERROR, Criteria, Matcher, MatchError, RequestClass
from replay.matching.rules import EquivalentResourceMapper, is_excluded_from_api_webhooks, is_excluded_from_webhooks


class WebhookHook(Struct, frozen=True):
    """A compiled webhook. `index` is its position among all webhooks of the plugin, as audit annotations count them."""

    configuration: str
    static: bool
    skips_reviews: bool
    index: int
    webhook: Webhook
    criteria: Criteria
    conditions: MatchConditions


class WebhookInvocation(Struct, frozen=True):
    """A webhook to call, with the resource and kind in which it gets the request."""

    hook: WebhookHook
    resource: GroupVersionResource
    kind: GroupVersionKind

    def call(self, phase: Phase, answer: str = "") -> WebhookCall:
        """Return the entry for a decision."""
        webhook = self.hook.webhook
        return WebhookCall(
            configuration=self.hook.configuration,
            webhook=webhook.name,
            phase=phase,
            failure_policy=str(webhook.failure_policy),
            timeout_seconds=webhook.timeout_seconds,
            side_effects=webhook.side_effects,
            answer=answer,
        )


class MatchConditions:
    """The match conditions of a webhook, compiled at first use."""

    def __init__(self, webhook: Webhook, version: KubernetesVersion) -> None:
        """Start without compiled expressions."""
        self._webhook = webhook
        self._version = version

    @cached_property
    def _compiler(self) -> ExpressionCompiler:
        """The compiler, without parameters and variables."""
        return ExpressionCompiler(self._version, has_params=False)

    @cached_property
    def _compiled(self) -> tuple[CompiledExpression, ...]:
        """The compiled conditions."""
        kind = ExpressionKind.MATCH_CONDITION
        return tuple(self._compiler.compile(kind, each.expression) for each in self._webhook.match_conditions)

    def match(
        self, bindings: Callable[[], dict[str, Any]], observer: ConditionsObserver | None = None
    ) -> MatchConditionsResult:
        """Return whether all conditions hold. `bindings` is called only if there are conditions."""
        if not self._webhook.match_conditions:
            return MATCHES
        inputs = bindings()
        result = match_conditions(
            self._compiled, Evaluation(self._compiler, inputs, BUDGET), self._webhook.failure_policy
        )
        if observer is not None:
            observer.conditions(self._compiler, self._compiled, Inputs(inputs, inputs["request"]), result)
        return result


class WebhookAdmission:
    """The webhooks of one phase of several manifest sets."""

    def __init__(
        self,
        sets: Sequence[ManifestSet],
        phase: Phase,
        version: KubernetesVersion,
        discovery: Discovery,
        authorizer: Callable[[Lister], Authorizer | Missing] = RBACAuthorizer,
    ) -> None:
        """`phase` selects the mutating or the validating webhooks.

        Match conditions are compiled when a request first needs them.
        """
        self.phase = phase
        self.version = version
        self._authorizer = authorizer
        self._converter = ObjectConverter(discovery)
        self.matcher = Matcher(EquivalentResourceMapper(discovery))
        self.hooks = [self._hooks(manifests) for manifests in sets]
        """The webhooks of each set, in order."""
        self._is_empty = not any(self.hooks)
        self._candidates: dict[RequestClass, list[tuple[WebhookHook, ...]]] = {}

    def _hooks(self, manifests: ManifestSet) -> tuple[WebhookHook, ...]:
        """Return all webhooks of a set: configurations in order, and webhooks as listed in them."""
        configurations = manifests.configurations(self.phase)
        listed = [(configuration, webhook) for configuration in configurations for webhook in configuration.webhooks]
        return tuple(
            WebhookHook(
                configuration.name,
                configuration.static,
                manifests.skips_reviews,
                index,
                webhook,
                self.matcher.criteria(match_resources(webhook), match_all=False),
                MatchConditions(webhook, self.version),
            )
            for index, (configuration, webhook) in enumerate(listed)
        )

    def hooks_of(self, manifests: ManifestSet) -> tuple[WebhookHook, ...]:
        """Return the webhooks of one other set, compiled in the same way."""
        return self._hooks(manifests)

    def candidates(self, attributes: Attributes) -> list[tuple[WebhookHook, ...]]:
        """Return, for each set, the webhooks that the resource does not exclude and whose rules match, in order."""
        if self._is_empty:
            return self.hooks
        request = self.matcher.request_class(attributes)
        if request not in self._candidates:
            self._candidates[request] = [
                tuple(hook for hook in hooks if self._is_candidate(hook, request)) for hooks in self.hooks
            ]
        return self._candidates[request]

    def _is_candidate(self, hook: WebhookHook, request: RequestClass) -> bool:
        """Return whether exclusions and rules allow a call of a webhook."""
        if is_excluded_from_webhooks(request.key.resource, skips_reviews=hook.skips_reviews):
            return False
        if is_excluded_from_api_webhooks(request.kind) and not hook.static:
            return False
        return hook.criteria.may_match(request)

    def should_call(
        self, hook: WebhookHook, attributes: Attributes, lister: Lister, observer: WebhookObserver | None = None
    ) -> WebhookInvocation | Denial | Missing | None:
        """Return how a candidate is called, the denial or the unknown input instead, or None if it is not called."""
        match = self.matcher.request(attributes, lister).match(hook.criteria)
        if observer is not None:
            observer.matched(hook, match, attributes)
        if match is None:
            return None
        if isinstance(match, MatchError):
            return _match_refusal(hook, match)

        # A function, so that a webhook without conditions does not convert the objects.
        conditions = hook.conditions.match(lambda: self._bindings(attributes, match.kind, lister), observer)
        if not conditions.matches and not conditions.error:
            return None
        # An unknown part comes first: without it neither a refusal nor a call is certain.
        unknown = match.unknown or next(iter(conditions.unknown), None)
        invocation = WebhookInvocation(hook, match.resource, match.kind)
        return unknown or _refusal(hook, attributes, conditions) or invocation

    def _bindings(self, attributes: Attributes, kind: GroupVersionKind, lister: Lister) -> dict[str, Any]:
        """Return the inputs of the match conditions of a webhook that gets the request as `kind`."""
        objects = self._converter.versioned(attributes, kind, lister)
        return {
            "object": self._converter.cel_value(objects.object, kind),
            "oldObject": self._converter.cel_value(objects.old_object, kind),
            "request": admission_request(attributes, attributes.resource, kind),
            # Match conditions of webhooks have no such variable.
            "namespaceObject": None,
            **authorizer_bindings(self._authorizer(lister), attributes),
        }


def _refusal(hook: WebhookHook, attributes: Attributes, conditions: MatchConditionsResult) -> Denial | None:
    """Return the denial in place of calling a matching webhook, None if it is called."""
    webhook = hook.webhook
    if conditions.error:
        return Denial(hook.configuration, webhook.name, None, conditions.error, "Forbidden", 403, of_webhook=True)
    if attributes.dry_run and webhook.side_effects not in ("None", "NoneOnDryRun"):
        text = f'admission webhook "{webhook.name}" does not support dry run'
        return Denial(hook.configuration, webhook.name, None, text, "BadRequest", 400, of_webhook=True)
    return None


def match_resources(webhook: Webhook) -> MatchResources:
    """Return the criteria of a webhook in the form of policy criteria."""
    return MatchResources(
        namespace_selector=webhook.namespace_selector,
        object_selector=webhook.object_selector,
        resource_rules=webhook.rules,
        match_policy=webhook.match_policy,
    )


def _match_refusal(hook: WebhookHook, error: MatchError) -> Denial:
    """Return the denial for criteria that cannot be evaluated.

    It is 404 for a missing namespace, otherwise an internal error.
    """
    where = (hook.configuration, hook.webhook.name, None)
    if error.is_not_found:
        return Denial(*where, error.message, "NotFound", 404, of_webhook=True)
    message = f"{INTERNAL_ERROR}{error.message.removeprefix(INTERNAL_ERROR)}"
    return Denial(*where, message, "InternalError", 500, of_webhook=True)
