"""Decision of a case's policies by the chain of plugins, in the cluster of the case, which is completely known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import orjson
from msgspec import Struct, field

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.admission.explain.explanation import PolicyExplanation
from replay.admission.explain.request import explained_request
from replay.case.attributes import AttributesMaker, CaseAttributes
from replay.case.case import AuthorizerReply, Case
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.identity import IdentityMemo
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Missing
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister, ObjectLister
from replay.kube.overlay import under
from replay.kube.rbac import RBAC_GROUP
from replay.kube.rbac_authorizer import RBACAuthorizer
from replay.kube.schema import Schemas

_NO_ANSWER = Missing(
    "authorizer",
    "the case has no authorizer",
    "give `authorizer:` with its answers, or RBAC objects in `objects:`",
)


class Answers(Struct, frozen=True):
    """Authorizer that answers from a table. All other questions are denied."""

    answers: Sequence[AuthorizerReply]

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        """Return the first answer that matches."""
        for answer in self.answers:
            if _fits(answer, attributes):
                if answer.allowed is None:
                    return Missing("authorizer", answer.reason or "the case does not state its answer")
                return AuthorizationDecision(answer.allowed, answer.reason, answer.error)
        return AuthorizationDecision(allowed=False)


class UnknownAuthorizer:
    """The authorizer of a case that does not state one.

    Its answers are unknown, so only expressions that use it are undetermined.
    """

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:  # noqa: ARG002
        """Return Missing."""
        return _NO_ANSWER


def _fits(answer: AuthorizerReply, attributes: AuthorizationAttributes) -> bool:
    pairs = (
        (answer.verb, attributes.verb),
        (answer.group, attributes.api_group),
        (answer.resource, attributes.resource),
        (answer.subresource, attributes.subresource),
        (answer.namespace, attributes.namespace),
        (answer.name, attributes.name),
        (answer.path, attributes.path),
        (answer.user, attributes.user.username),
        (answer.field_selector, attributes.field_selector),
        (answer.label_selector, attributes.label_selector),
    )
    return all(condition is None or condition == value for condition, value in pairs)


class CaseLister:
    """The objects of a case as a lister, with the case's authorizer."""

    def __init__(self, objects: Iterable[JSON], answers: Sequence[AuthorizerReply] | None) -> None:
        """`answers` None lets the RBAC objects decide, if there are any."""
        object_list = list(objects)
        self._objects = ObjectLister(object_list)
        has_rbac = any(str(obj.get("apiVersion", "")).startswith(f"{RBAC_GROUP}/") for obj in object_list)
        self.authorizer: Authorizer = UnknownAuthorizer()
        if answers is not None:
            self.authorizer = Answers(answers)
        elif has_rbac:
            self.authorizer = RBACAuthorizer(self._objects)

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        return self._objects.get(kind, namespace, name)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON]:
        """See `Lister.list`."""
        return self._objects.list(kind, namespace)


def authorizer_of(lister: Lister) -> Authorizer:
    """Return the authorizer of policies, for a case's lister."""
    own = under(lister)
    assert isinstance(own, CaseLister)
    return own.authorizer


_NOTHING = ManifestSet()
_CRD = "CustomResourceDefinition"


class DecidedCase(Struct, frozen=True):
    """Decision of a case, with its attributes. `teller` decodes objects."""

    case: Case
    attributes: CaseAttributes
    decision: Decision
    attributes_maker: AttributesMaker
    _chain: Chain
    _lister: CaseLister

    def explained(self) -> tuple[PolicyExplanation, ...]:
        """Return each policy with its expressions: the mutating policies as they ran, then the validating ones."""
        index, manifests = 0 if self.attributes.is_stated else 1, self.case.manifests
        asking = self._chain.asking(self.attributes.original, self.attributes.validated, self._lister, {})
        explained = explained_request(self._chain, asking, index, manifests)
        return (*(policy for each in explained.passes for policy in each.policies), *explained.policies)


class CaseDecider(Struct):
    """Decider of cases. It compiles each set of policies once."""

    version: KubernetesVersion = NEWEST
    _tellers: dict[bytes, AttributesMaker] = field(default_factory=dict)
    _chains: IdentityMemo[Chain] = field(default_factory=IdentityMemo)

    def decided(self, case: Case) -> DecidedCase:
        """Return the decision of a case. Raises CaseError for a request that no server would pass to its policies."""
        crds = [obj for obj in case.objects if obj.get("kind") == _CRD]
        key = orjson.dumps(crds)
        teller = self._attributes_maker(key, crds)
        attributes = teller.attributes(case)
        chain = self._chain(case.manifests, attributes, teller, key, crds)
        named = () if attributes.namespace is None else (attributes.namespace,)
        lister = CaseLister((*map(teller.stored, case.objects), *named), case.answers)
        # A stated object is what the server made of what this set left. Else nothing mutated it, as with an empty set.
        decision = chain.decide(attributes.original, attributes.validated, lister)[0 if attributes.is_stated else 1]
        return DecidedCase(case, attributes, decision, teller, chain, lister)

    def _attributes_maker(self, key: bytes, crds: list[JSON]) -> AttributesMaker:
        teller = self._tellers.get(key)
        if teller is None:
            teller = self._tellers[key] = AttributesMaker(builtin_discovery().with_crds(crds), Schemas(crds))
        return teller

    def _chain(
        self, manifests: ManifestSet, attributes: CaseAttributes, teller: AttributesMaker, key: bytes, crds: list[JSON]
    ) -> Chain:
        rest = attributes.is_stated, key
        known_chain = self._chains.get((manifests,), rest)
        if known_chain is not None:
            return known_chain
        sets = [manifests] if attributes.is_stated else [_NOTHING, manifests]
        chain = Chain(sets, self.version, teller.discovery, Schemas(crds), authorizer=authorizer_of)
        return self._chains.put((manifests,), chain, rest)
