"""A chain from its configuration and what is known of the cluster (`k8s.io/kubernetes/pkg/kubeapiserver/authorizer`)."""

from __future__ import annotations

from replay.authorization.chain import (
    Chain,
    ConstantMember,
    Member,
    NodeMember,
    PrivilegedGroupMember,
    RBACMember,
    UnknownMember,
    WebhookMember,
)
from replay.authorization.configuration import AuthorizationConfiguration, AuthorizerConfiguration, mode_configuration
from replay.authorization.match_condition import Matcher
from replay.authorization.node.authorizer import NodeAuthorizer
from replay.authorization.node.graph import Graph
from replay.authorization.trace import AuthorizerDecision, Step
from replay.authorization.webhook import WebhookAnswers
from replay.cellib.authorization import compile_condition
from replay.cellib.version import KubernetesVersion
from replay.kube.rbac.authorizer import RoleResolver

DEFAULT_MODES = ("Node", "RBAC")
"""The chain of a set that has no configuration."""
DEFAULT_CONFIGURATION = mode_configuration(DEFAULT_MODES)


class ChainBuilder:
    """Builds the chains of a configuration that a server accepts; what they have in common is made once."""

    def __init__(
        self, configuration: AuthorizationConfiguration, answers: WebhookAnswers, version: KubernetesVersion
    ) -> None:
        """`answers` are those of the webhooks."""
        self._version = version
        self._members = [(each, _member(each, answers, version)) for each in configuration.authorizers]
        self._steps: dict[str, dict[int, Step]] = {}

    def build(self, roles: RoleResolver, graph: Graph) -> Chain:
        """The chain for a state of the cluster; all `roles` that a builder is given have the same base."""
        return Chain((PrivilegedGroupMember(), *(own or self._of(each, roles, graph) for each, own in self._members)))

    def _of(self, authorizer: AuthorizerConfiguration, roles: RoleResolver, graph: Graph) -> Member:
        """One of those that look at the cluster."""
        if authorizer.type == "Node":
            return NodeMember(NodeAuthorizer(graph, self._version), authorizer.name)
        return RBACMember(roles, authorizer.name, steps=self._steps.setdefault(authorizer.name, {}))


def _member(authorizer: AuthorizerConfiguration, answers: WebhookAnswers, version: KubernetesVersion) -> Member | None:
    """An authorizer, None for those that look at the cluster."""
    match authorizer.type:
        case "Node" | "RBAC":
            return None
        case "AlwaysAllow" | "AlwaysDeny":
            return ConstantMember(authorizer.name, authorizer.type)
    webhook = authorizer.webhook
    if webhook is None:
        return UnknownMember(
            authorizer.name, authorizer.type, f"what {authorizer.type} is configured with was not given"
        )
    conditions = [compile_condition(version, expression) for expression in webhook.match_conditions or ()]
    return WebhookMember(
        authorizer.name,
        Matcher(conditions),
        AuthorizerDecision(webhook.failure_policy),
        answers,
        webhook.subject_access_review_version,
    )
