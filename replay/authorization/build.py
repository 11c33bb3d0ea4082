"""Chain of a configuration and the known cluster (`k8s.io/kubernetes/pkg/kubeapiserver/authorizer`)."""

from __future__ import annotations

from replay.authorization.chain import (
    ABACMember,
    AuthorizerChain,
    ConstantMember,
    Member,
    NodeMember,
    PrivilegedGroupMember,
    RBACMember,
    UnknownMember,
    WebhookMember,
)
from replay.authorization.configuration import AuthorizationConfiguration, AuthorizerConfiguration, mode_configuration
from replay.authorization.match_condition import WebhookConditions
from replay.authorization.node.authorizer import NodeAuthorizer
from replay.authorization.node.graph import Graph
from replay.authorization.question import Question
from replay.authorization.trace import AuthorizerDecision, AuthorizerStep
from replay.authorization.webhook import AuthorizerAnswers
from replay.cellib.authorization import compile_condition
from replay.cellib.version import KubernetesVersion
from replay.identity import IdentityMap
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.rbac.authorizer import NODE_PREFIX, RBACVerdict, RoleResolver

DEFAULT_MODES = ("Node", "RBAC")
"""The chain of a set that has no configuration."""
DEFAULT_CONFIGURATION = mode_configuration(DEFAULT_MODES)


class ChainBuilder:
    """Builder of the chains of an accepted configuration. Shared parts are made once."""

    def __init__(
        self, configuration: AuthorizationConfiguration, answers: AuthorizerAnswers, version: KubernetesVersion
    ) -> None:
        """`answers` are those of the webhooks."""
        self._version = version
        self._members = [(each, _member(each, answers, version)) for each in configuration.authorizers]
        webhooks = [own for _, own in self._members if isinstance(own, WebhookMember)]
        self._readers = [each for each in webhooks if each.may_read_names]
        self._steps: dict[str, IdentityMap[RBACVerdict, AuthorizerStep]] = {}

    def build(self, roles: RoleResolver, graph: Graph) -> AuthorizerChain:
        """The chain for a state of the cluster; all `roles` that a builder is given have the same base."""
        return AuthorizerChain(
            (PrivilegedGroupMember(), *(own or self._of(each, roles, graph) for each, own in self._members))
        )

    def reads_name(self, attributes: AuthorizationAttributes) -> bool:
        """Return whether a decision may depend on the object's name, apart from RBAC rules that name it."""
        if attributes.user.username.startswith(NODE_PREFIX):
            return True
        return bool(self._readers) and any(each.reads_name(Question(attributes)) for each in self._readers)

    def _of(self, authorizer: AuthorizerConfiguration, roles: RoleResolver, graph: Graph) -> Member:
        """Return a member that looks at the cluster."""
        if authorizer.type == "Node":
            return NodeMember(NodeAuthorizer(graph, self._version), authorizer.name)
        return RBACMember(roles, authorizer.name, steps=self._steps.setdefault(authorizer.name, IdentityMap()))


def _member(
    authorizer: AuthorizerConfiguration, answers: AuthorizerAnswers, version: KubernetesVersion
) -> Member | None:
    """An authorizer, None for those that look at the cluster."""
    match authorizer.type:
        case "Node" | "RBAC":
            return None
        case "AlwaysAllow" | "AlwaysDeny":
            return ConstantMember(authorizer.name, authorizer.type)
        case "ABAC" if authorizer.policies is not None:
            return ABACMember(authorizer.policies, authorizer.name)
    webhook = authorizer.webhook
    if webhook is None:
        return UnknownMember(
            authorizer.name, authorizer.type, f"what {authorizer.type} is configured with was not given"
        )
    conditions = [compile_condition(version, expression) for expression in webhook.match_conditions or ()]
    return WebhookMember(
        authorizer.name,
        WebhookConditions(conditions),
        AuthorizerDecision(webhook.failure_policy),
        answers,
        webhook.subject_access_review_version,
    )
