"""Answers of Kyverno's webhooks, from the objects of a set and the cluster's objects at the time of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from replay.admission.decision import Triggered
from replay.admission.explain.explanation import BindingExplanation, PolicyExplanation
from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.admission.webhook.answer import WebhookAnswer, WebhookReview
from replay.admission.webhook.webhooks import WebhookInvocation
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet, Phase, Webhook
from replay.kube.attributes import Attributes, Missing
from replay.kube.discovery import Discovery
from replay.kube.engine_policy import policy_name
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.json_patch import diff
from replay.kube.lister import Lister
from replay.kyverno.cel.generating import GeneratingPolicy
from replay.kyverno.cel.library.context import ListerReader
from replay.kyverno.cel.mutating import MutatingPolicy
from replay.kyverno.cel.request import CELRequest
from replay.kyverno.cel.validating import ValidatingPolicy
from replay.kyverno.cel.webhook import CELAnswer, CELPolicies, CELWebhook, decided
from replay.kyverno.cluster import ListedCluster, requester_of
from replay.kyverno.explain import Policy as CELPolicy
from replay.kyverno.explain import explained_cel, explained_generation, explained_result, explained_rules
from replay.kyverno.looked_up import LookedUpLister
from replay.kyverno.naming import is_webhook_of_kyverno, rule_name
from replay.kyverno.policy_set import KyvernoPolicies
from replay.kyverno.rules.match import Requester
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import ERROR, FAIL, PASS, GoPanicError, UndeterminedError
from replay.kyverno.rules.webhook import RuleAnswer, RulePolicy, RuleWebhook
from replay.kyverno.triggered import is_dry_run, work_of_generating, work_of_mutating, work_of_rules

_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")
_OWN_KINDS: Final = frozenset(
    {
        "AdmissionReport",
        "ClusterAdmissionReport",
        "BackgroundScanReport",
        "ClusterBackgroundScanReport",
        "UpdateRequest",
    }
)
"""Kinds that Kyverno's webhooks always allow, because Kyverno itself writes them."""


def kyverno_of(manifests: ManifestSet) -> Kyverno | None:
    """Return Kyverno with the objects of a set, or None if the set has no Kyverno objects."""
    own = [each for each in manifests.engine_objects if ".gatekeeper.sh/" not in str(each.get("apiVersion"))]
    # A ConfigMap alone configures Kyverno, but decides nothing.
    return Kyverno(own) if any(each.get("apiVersion") != "v1" for each in own) else None


class Kyverno(KyvernoPolicies):
    """Kyverno with the objects of one set, as the engine behind its webhooks."""

    def answers_for(self, webhook: str) -> bool:
        """Return whether a webhook of this name belongs to Kyverno."""
        return is_webhook_of_kyverno(webhook)

    def backend(self, lister: Lister, discovery: Discovery, patchers: ObjectPatchers) -> KyvernoBackend:
        """Return the backend for one request, with the objects of `lister` and the kinds of `discovery`."""
        return KyvernoBackend(self, lister, discovery, patchers)


class KyvernoBackend:
    """Answers of Kyverno's webhooks to one request."""

    def __init__(self, kyverno: Kyverno, lister: Lister, discovery: Discovery, patchers: ObjectPatchers) -> None:
        """Prepare the lookups. `patchers` apply the patches of mutating CEL policies."""
        self._kyverno = kyverno
        self._lister = LookedUpLister(lister, kyverno.kinds_looked_up)
        self._discovery = discovery
        self._patchers = patchers
        self._cluster = ListedCluster(self._lister, discovery, kyverno.entries, kyverno.library)

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        """Return Kyverno's answer to each review, or `Missing` if it is unknown."""
        return [self._answered(each.invocation.hook.webhook, each.phase, each.request) for each in reviews]

    def recall(
        self, invocation: WebhookInvocation, phase: Phase, attributes: Attributes
    ) -> WebhookAnswer | Missing | None:
        """Return the answer about a partly known object, or None if the answer needs the whole object."""
        webhook = invocation.hook.webhook
        request: dict[str, JSON] = {
            "kind": invocation.kind._asdict(),
            "resource": invocation.resource._asdict(),
            "requestKind": attributes.kind._asdict(),
            "requestResource": attributes.resource._asdict(),
            "subResource": attributes.subresource,
            "name": attributes.name,
            "namespace": attributes.namespace,
            "operation": str(attributes.operation),
            "userInfo": {"username": attributes.user_info.username, "groups": list(attributes.user_info.groups)},
            "object": attributes.object,
            "oldObject": attributes.old_object,
            "options": attributes.options,
            "dryRun": attributes.dry_run,
        }
        if not _is_of_rules(webhook):
            answer = self._answered(webhook, phase, request)
            # A patch would also have to apply to the unknown parts.
            return None if isinstance(answer, WebhookAnswer) and answer.patch else answer
        known = self._unless_excluded(request, lambda: self._answer_if_partly_known(webhook, phase, request))
        return None if known is None else self._with_work(webhook, phase, request, known)

    def _answer_if_partly_known(
        self, webhook: Webhook, phase: Phase, request: Mapping[str, Any]
    ) -> WebhookAnswer | Missing | None:
        """Return the answer of ClusterPolicies for a partly known request, or None if they would patch it.

        Unknown parts that no policy reads do not matter. Otherwise the answer names the unknown part.
        """
        # Which policies apply is asked without the objects. Only then is it known whose text can read the unknown
        # parts.
        bare = {**request, "object": None, "oldObject": None, "options": None}
        asked = self._rules(webhook).is_for(self._request(bare))
        deciding = [(policy, names) for policy in asked if (names := _rule_names(policy, phase))]
        if not deciding or (phase == "mutating" and request["operation"] not in ("CREATE", "UPDATE")):
            return WebhookAnswer(allowed=True)
        parts = self._kyverno.texts.of([policy for policy, _ in deciding]).known_parts(request)
        if not isinstance(parts, Missing):
            answer = self._answer_by_rules(webhook, phase, {**request, **parts})
            return None if answer.patch else answer
        if phase == "mutating":  # each policy changes what the next one sees
            return WebhookAnswer(unknown=tuple((name, parts) for _, names in deciding for name in names))
        return self._answer_of_known_parts(webhook, request, deciding)

    def _answer_of_known_parts(
        self, webhook: Webhook, request: Mapping[str, Any], deciding: Sequence[tuple[RulePolicy, Sequence[str]]]
    ) -> WebhookAnswer:
        """Return the validating answer of the policies that read only known parts, and name the others."""
        known: list[RulePolicy] = []
        unknown: list[tuple[str, Missing]] = []
        shown: Mapping[str, JSON] = {}
        for policy, names in deciding:
            parts = self._kyverno.texts.of([policy]).known_parts(request)
            if isinstance(parts, Missing):
                unknown += [(name, parts) for name in names]
            else:
                # The same for all of them: what is unknown is left out.
                shown = parts
                known.append(policy)
        if not known:
            return WebhookAnswer(unknown=tuple(unknown))
        answer = self._answer_by_rules(webhook, "validating", {**request, **shown}, known)
        return replace(answer, unknown=(*answer.unknown, *unknown))

    def _answered(self, webhook: Webhook, phase: Phase, request: Mapping[str, Any]) -> WebhookAnswer | Missing:
        decide = self._answer_by_rules if _is_of_rules(webhook) else self._answer_by_cel
        answer = self._unless_excluded(request, lambda: decide(webhook, phase, request))
        if answer is None:
            return Missing("webhook", "the policies are not known")
        return self._with_work(webhook, phase, request, answer)

    def _with_work(
        self, webhook: Webhook, phase: Phase, request: Mapping[str, Any], answer: WebhookAnswer | Missing
    ) -> WebhookAnswer | Missing:
        """Return an answer with what the webhook's policies make or change after the request."""
        is_silent = isinstance(answer, Missing) or not (answer.allowed or answer.unknown)
        if is_silent or not self._kyverno.triggers or is_dry_run(request) or self._is_excluded(request):
            return answer
        work = self._kyverno.moment.begin(self._lister, lambda: tuple(self._work(webhook, phase, request)))
        return replace(answer, triggered=work) if work else answer

    def _work(self, webhook: Webhook, phase: Phase, request: Mapping[str, Any]) -> Iterator[Triggered]:
        if _is_of_rules(webhook):
            if phase == "validating":
                yield from self._work_of_rules(webhook, request)
            return
        policies, namespace = self._cel_policies(webhook, request)
        cel_request = self._cel_request({**request, "dryRun": False})
        works = work_of_mutating if phase == "mutating" else work_of_generating
        asked: Sequence[Any] = policies.mutating if phase == "mutating" else policies.generating
        own = [each for each in asked if each.namespace == namespace]
        for each in works(own, cel_request, self._reader):
            yield Triggered(self._name_of_cel(each.policy.namespace, each.policy.name), each.work, each.unknown)

    def _work_of_rules(self, webhook: Webhook, request: Mapping[str, Any]) -> Iterator[Triggered]:
        rules = self._rules(webhook)
        bare = {**request, "object": None, "oldObject": None, "options": None}

        def known(policies: Sequence[RulePolicy]) -> Request:
            parts = self._kyverno.texts.of(policies).known_parts(request)
            if isinstance(parts, Missing):
                raise UndeterminedError(f"{parts.path}: {parts.reason}")
            return self._request({**request, **parts})

        for each in work_of_rules(rules.engine, rules.is_for(self._request(bare), ("generate", "mutate")), known):
            name = rule_name(each.policy.policy, each.rule) if each.rule else policy_name(each.policy.policy)
            yield Triggered(name, each.work or (f"makes nothing: {each.error}" if each.error else ""), each.unknown)

    def _unless_excluded(
        self, request: Mapping[str, Any], decide: Callable[[], WebhookAnswer | Missing | None]
    ) -> WebhookAnswer | Missing | None:
        """Return the answer of `decide`, unless Kyverno's filters of users and objects let the request through.

        Returns `Missing` if the answer cannot be determined or if Kyverno would panic.
        """
        try:
            if self._is_excluded(request):
                return WebhookAnswer(allowed=True)
            kyverno = self._kyverno
            return kyverno.moment.decide(self._lister, decide, may_read=kyverno.reads_time)
        except UndeterminedError as error:
            return Missing("webhook", str(error))
        except GoPanicError as error:
            return Missing("webhook", f"Kyverno's engine panics: {error}")
        except RecursionError:
            return Missing("webhook", "a policy or object is nested too deep")

    def _requester(self, request: Mapping[str, Any]) -> Requester:
        return requester_of(request, self._lister, reads_roles=self._kyverno.reads_roles)

    def _is_excluded(self, request: Mapping[str, Any]) -> bool:
        """Return whether a filter excludes the request (`pkg/webhooks/handlers/filter.go`)."""
        configuration = self._kyverno.configuration
        requester = self._requester(request)
        if configuration.reads_roles and requester.unknown:
            raise UndeterminedError(requester.unknown)
        if configuration.is_excluded(requester):
            return True
        fields = (str(request.get(key) or "") for key in ("subResource", "namespace", "name"))
        return configuration.is_filtered(self._kind(request), *fields) or request["kind"]["kind"] in _OWN_KINDS

    def _kind(self, request: Mapping[str, Any]) -> GroupVersionKind:
        """Return the kind of the resource, even if the request is for a subresource."""
        resource = GroupVersionResource(**request["resource"])
        return self._discovery.kind(resource) or GroupVersionKind(**request["kind"])

    def _request(self, request: Mapping[str, Any]) -> Request:
        kyverno = self._kyverno
        made = Request(
            request, self._kind(request), self._requester(request), kyverno.library, kyverno.configuration.images
        )
        made.namespace_of = self._cluster.namespace
        return made

    def _rules(self, webhook: Webhook) -> RuleWebhook:
        """Return the webhook limited to the ClusterPolicies and Policies that its path selects."""
        whole, policies = self._kyverno.rules(self._discovery), self._kyverno.behind(self._discovery, _path(webhook))
        return whole.for_policies(replace(whole.engine, cluster=self._cluster), self._cluster.namespace, policies)

    def _answer_by_rules(
        self,
        webhook: Webhook,
        phase: Phase,
        request: Mapping[str, Any],
        policies: Sequence[RulePolicy] | None = None,
    ) -> WebhookAnswer:
        """Return the answer of the webhook's ClusterPolicies and Policies, or of only some of them."""
        rules, made = self._rules(webhook), self._request(request)
        if policies is not None:
            rules = rules.for_policies(rules.engine, rules.namespaces, policies)
        return _answer_of_rules(rules.mutate(made) if phase == "mutating" else rules.validate(made))

    def _answer_by_cel(self, webhook: Webhook, phase: Phase, request: Mapping[str, Any]) -> WebhookAnswer:
        policies, namespace = self._cel_policies(webhook, request)
        asked = CELWebhook(policies, self._reader, self._patchers)
        cel_request = self._cel_request(request)
        if phase == "mutating":
            return self._answer_of_cel(asked.mutate(cel_request, namespace))
        unknown: list[tuple[ValidatingPolicy, str]] = []
        answer = self._answer_of_cel(decided(asked.results(cel_request, unknown), namespace))
        own = [(each, reason) for each, reason in unknown if each.namespace == namespace]
        return _with_unknown(answer, ((self._name_of_cel(each.namespace, each.name), reason) for each, reason in own))

    def _cel_policies(self, webhook: Webhook, request: Mapping[str, Any]) -> tuple[CELPolicies, str]:
        """Return the CEL policies behind a webhook, and their namespace if they are namespaced."""
        policies, is_namespaced = self._kyverno.cel_behind(_path(webhook))
        return policies, str(request.get("namespace") or "") if is_namespaced else ""

    def _cel_request(self, request: Mapping[str, Any]) -> CELRequest:
        name = str(request.get("namespace") or "")
        namespace = self._lister.get(_NAMESPACE, "", name) if name else None
        if not self._kyverno.reads_time:
            return CELRequest(request, namespace)
        return CELRequest(request, namespace, self._kyverno.moment.timestamp())

    @property
    def _reader(self) -> ListerReader:
        return ListerReader(self._lister, self._discovery, self._cluster.global_entry)

    def explain(self, review: WebhookReview) -> Sequence[PolicyExplanation]:
        """Return each policy behind a webhook with its result, including policies that do not match."""
        return self._kyverno.moment.begin(self._lister, lambda: self._explained(review))

    def _explained(self, review: WebhookReview) -> Sequence[PolicyExplanation]:
        webhook, request = review.invocation.hook.webhook, review.request
        mutates = review.phase == "mutating"
        try:
            if self._is_excluded(request):
                return ()
        except UndeterminedError:
            return ()
        if _is_of_rules(webhook):
            return tuple(explained_rules(self._rules(webhook), self._request(request), mutates=mutates))
        policies, namespace = self._cel_policies(webhook, request)
        cel_request = self._cel_request({**request, "dryRun": is_dry_run(request)})
        asked: list[CELPolicy] = [*policies.validating, *policies.generating]
        if mutates:
            asked = [*policies.mutating]
        own = [each for each in asked if each.namespace == namespace]
        return tuple(explained_cel(own, lambda each: self._policy_result(each, cel_request), self._kyverno.kinds))

    def _policy_result(self, policy: CELPolicy, request: CELRequest) -> BindingExplanation | None:
        """Return the result of one CEL policy, or None if the policy does not match."""
        if isinstance(policy, MutatingPolicy):
            mutation = policy.mutate(request, self._reader, self._patchers)
            return None if mutation is None else explained_result(mutation.rule, ("Deny",) if policy.fails else ())
        if isinstance(policy, GeneratingPolicy):
            made = policy.generate(request, self._reader)
            return None if made is None else explained_generation(made)
        result = policy.validate(request, self._reader)
        if result is None:
            return None
        return explained_result(result.rule, policy.actions, tuple(policy.steps(request, self._reader)))

    def _answer_of_cel(self, answer: CELAnswer) -> WebhookAnswer:
        """Return the answer with the denying policies, or with the policy that changed the object if there is only one."""
        failed = [each for each in answer.results if each.rule.status in (FAIL, ERROR)]
        if not answer.allowed:
            denying = (each for each in failed if (not each.actions or "Deny" in each.actions))
            return _refusal(answer, (self._name_of_cel(each.namespace, each.policy) for each in denying))
        changing = [] if not answer.patch else [each for each in answer.results if each not in failed]
        # If several policies changed the object, the patch cannot be divided among them.
        only = changing[0] if len(changing) == 1 else None
        mutated = () if only is None else ((self._name_of_cel(only.namespace, only.policy), answer.patch),)
        return WebhookAnswer(allowed=True, patch=answer.patch, warnings=answer.warnings, mutated=mutated)

    def _name_of_cel(self, namespace: str, policy: str) -> str:
        key = f"{namespace}/{policy}".lstrip("/")
        return f"{self._kyverno.kinds[key]}/{key}"


def _with_unknown(answer: WebhookAnswer, unknown: Iterable[tuple[str, str]]) -> WebhookAnswer:
    """Return the answer with the policies, each with its reason, that could add to a denial or deny themselves."""
    missing = tuple((name, Missing("webhook", reason)) for name, reason in unknown)
    return replace(answer, unknown=missing) if missing else answer


def _answer_of_rules(answer: RuleAnswer) -> WebhookAnswer:
    """Return the answer with the denying rules, or with the patch of each rule."""
    unknown = (
        (name, reason)
        for policy, reason in answer.unknown
        for name in _rule_names(policy, "validating") or [policy_name(policy.policy)]
    )
    return _with_unknown(_known_answer(answer), unknown)


def _known_answer(answer: RuleAnswer) -> WebhookAnswer:
    if not answer.allowed:
        bad = (FAIL, ERROR)
        denying = (
            rule_name(each.policy, rule.name) for each in answer.responses for rule in each.rules if rule.status in bad
        )
        return _refusal(answer, denying)
    mutated = []
    for each in answer.responses if answer.patch else ():
        if patch := tuple(diff(each.resource, each.patched)) if each.patched is not None else ():
            mutated += [(rule_name(each.policy, rule.name), patch) for rule in each.rules if rule.status == PASS]
    return WebhookAnswer(allowed=True, patch=answer.patch, warnings=answer.warnings, mutated=tuple(mutated))


def _refusal(answer: RuleAnswer | CELAnswer, policies: Iterable[str]) -> WebhookAnswer:
    """Return a refusal as Kyverno's handlers write it: without code and reason (`pkg/utils/admission/response.go`)."""
    names = tuple(dict.fromkeys(policies))
    return WebhookAnswer(status={"message": answer.message}, warnings=answer.warnings, policies=names)


def _rule_names(policy: RulePolicy, phase: Phase) -> list[str]:
    rules = policy.spec.get("rules") or ()
    wanted = ("mutate", "verifyImages") if phase == "mutating" else ("validate", "verifyImages")
    enforced = [rule for rule in rules if any(rule.get(key) for key in wanted)]
    if phase == "validating" and not policy.is_enforcing:
        enforced = [rule for rule in enforced if rule.get("verifyImages")]
    return [rule_name(policy.policy, rule.get("name")) for rule in enforced]


def _path(webhook: Webhook) -> str:
    config = webhook.client_config
    return config.service.path if config.service is not None else "/" + config.url.partition("://")[2].partition("/")[2]


def _is_of_rules(webhook: Webhook) -> bool:
    """Return whether a webhook serves ClusterPolicies and Policies, and not CEL policies."""
    return webhook.name.startswith(("validate.", "mutate."))
