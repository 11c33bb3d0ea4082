"""A chain from its configuration and what is known of the cluster (`k8s.io/kubernetes/pkg/kubeapiserver/authorizer`)."""

from __future__ import annotations

from dataclasses import dataclass

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
from replay.authorization.node import NodeAuthorizer
from replay.authorization.node_graph import NodeGraph
from replay.authorization.trace import AuthorizerDecision
from replay.authorization.webhook import WebhookAnswers
from replay.cellib.authorization import compile_condition
from replay.cellib.version import KubernetesVersion
from replay.kube.rbac import RoleResolver

DEFAULT_MODES = ("Node", "RBAC")
"""The chain of a set that has no configuration."""
DEFAULT_CONFIGURATION = mode_configuration(DEFAULT_MODES)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the built-in authorizers look at."""

    roles: RoleResolver
    graph: NodeGraph


def build_chain(
    configuration: AuthorizationConfiguration, cluster: Cluster, answers: WebhookAnswers, version: KubernetesVersion
) -> Chain:
    """The chain of a configuration that a server accepts."""
    members = [_member(each, cluster, answers, version) for each in configuration.authorizers]
    return Chain((PrivilegedGroupMember(), *members))


def _member(
    authorizer: AuthorizerConfiguration, cluster: Cluster, answers: WebhookAnswers, version: KubernetesVersion
) -> Member:
    match authorizer.type:
        case "Node":
            return NodeMember(NodeAuthorizer(cluster.graph, version), authorizer.name)
        case "RBAC":
            return RBACMember(cluster.roles, authorizer.name)
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
