"""Kyverno's objects of one set: what it compiles and refuses, what they read, and which are behind which webhook."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct

from replay.identity import IdentityMap
from replay.json import JSON
from replay.kube.discovery import Discovery
from replay.kube.engine_policy import policy_name
from replay.kube.lister import ObjectLister
from replay.kyverno.cel.spec import GENERATING, GROUP, MUTATING, is_cel_object
from replay.kyverno.cel.webhook import CELPolicies
from replay.kyverno.cluster import ListedCluster, Moment
from replay.kyverno.configuration import Configuration, configuration_of
from replay.kyverno.looked_up import RuleTexts, looked_up
from replay.kyverno.naming import rule_name
from replay.kyverno.policy_schema import is_known_kind, schema_refusal, without_nulls
from replay.kyverno.rules.engine import Engine
from replay.kyverno.rules.exception import PolicyExceptions
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.jmespath.library import kyverno_library
from replay.kyverno.rules.policy_check import policy_refusal
from replay.kyverno.rules.webhook import RulePolicy, RuleWebhook

_RBAC: Final = "rbac.authorization.k8s.io"
_DELETING: Final = ("CleanupPolicy", "DeletingPolicy")
_MOST_NAMES: Final = 3


class Refusal(Struct, frozen=True):
    """Object that Kyverno refuses, with the message."""

    kind: str
    name: str
    message: str


class KyvernoPolicies:
    """Kyverno's objects of one set, compiled."""

    def __init__(self, objects: Sequence[JSON]) -> None:
        """Compile the CEL policies. Objects that violate their schema go to `refused`."""
        self.refused: list[Refusal] = []
        self.configuration: Configuration = configuration_of(objects)
        taken: list[JSON] = []
        for each in objects:
            obj = without_nulls(each) if is_known_kind(each) else each
            refusal = schema_refusal(obj) if is_known_kind(obj) else None
            if refusal is None:
                taken.append(obj)
            else:
                self.refused.append(Refusal(str(each.get("kind")), str(each["metadata"].get("name")), refusal))
        of_rules = [each for each in taken if str(each.get("apiVersion")).partition("/")[0] != GROUP]
        self.policies = [each for each in of_rules if each.get("kind") in ("ClusterPolicy", "Policy")]
        exceptions = [each for each in of_rules if each.get("kind") == "PolicyException"]
        self.exceptions = PolicyExceptions(exceptions)
        self.entries = [each for each in taken if each.get("kind") == "GlobalContextEntry"]
        self._deleting = [policy_name(each) for each in taken if str(each.get("kind")).endswith(_DELETING)]
        self.cel_objects = [each for each in taken if each not in of_rules]
        """CEL policies and their exceptions."""
        self.cel = CELPolicies(taken)
        self.moment = Moment()
        self.library = kyverno_library(self.moment, self.configuration.images)
        self.kinds = {
            policy_name(each).partition("/")[2]: str(each.get("kind")) for each in taken if each not in of_rules
        }
        self.reads_time = any(word in json.dumps(self.cel_objects) for word in ("time.now", "expiresAt"))
        """Whether a CEL policy reads the time, or an exception expires."""
        texts = json.dumps([*of_rules, *self.entries])
        # The end of `roles` and of `clusterRoles`.
        self.reads_roles = "oles" in texts or self.configuration.reads_roles
        self._reads_config_maps = "configMap" in texts
        self._looked_up = looked_up([*self.policies, *self.entries, *self.cel_objects])
        self.kinds_looked_up = frozenset(self.looked_up())
        self._made: IdentityMap[Discovery, RuleWebhook] = IdentityMap()
        self.texts = RuleTexts(exceptions)
        self._behind: dict[tuple[int, str], list[RulePolicy]] = {}
        self._cel_behind: dict[str, tuple[CELPolicies, bool]] = {}

    @property
    def refused_if_new(self) -> Sequence[Refusal]:
        """New policies that Kyverno's policy webhook refuses.

        A policy with a uid was accepted before and is not checked.
        """
        new = (each for each in self.policies if not each["metadata"].get("uid"))
        refusals = ((each, policy_refusal(each, self.library)) for each in new)
        return [
            Refusal(str(each["kind"]), str(each["metadata"]["name"]), refusal)
            for each, refusal in refusals
            if refusal is not None
        ]

    @cached_property
    def triggers(self) -> Sequence[str]:
        """Names of rules and policies that make or change other objects after a request."""
        names = [
            rule_name(policy, rule.get("name"))
            for policy in self.policies
            for rule in as_map(policy.get("spec")).get("rules") or ()
            if rule.get("generate") or as_map(rule.get("mutate")).get("targets") is not None
        ]
        names += [policy_name(each) for each in self.cel_objects if is_cel_object(each, *GENERATING)]
        changing = {each.name for each in self.cel.mutating if each.spec.mutates_existing}
        names += [
            policy_name(each)
            for each in self.cel_objects
            if is_cel_object(each, *MUTATING) and each["metadata"]["name"] in changing
        ]
        return names

    @property
    def later(self) -> Sequence[str]:
        """Sentences about rules and policies that make or change other objects after a request, or delete objects at times."""
        texts = []
        if self.triggers:
            text = (
                "other objects are made or changed after a request; `--full` counts the requests and lists the objects"
            )
            texts.append(f"{_some(self.triggers)}: {text}")
        if self._deleting:
            texts.append(f"{_some(self._deleting)}: objects are deleted at times, whatever is requested")
        return texts

    def looked_up(self) -> Iterator[tuple[str, str]]:
        """Yield the group and kind of objects that policies read.

        Namespaces are always read. Role bindings and ConfigMaps are read only if a policy uses them.
        """
        yield "", "Namespace"
        if self.reads_roles:
            yield from ((_RBAC, "RoleBinding"), (_RBAC, "ClusterRoleBinding"))
        if self._reads_config_maps:
            yield "", "ConfigMap"
        yield from sorted(self._looked_up)

    def rules(self, discovery: Discovery) -> RuleWebhook:
        """Return the webhook of all ClusterPolicies and Policies, in a cluster that serves the kinds of `discovery`."""
        if discovery not in self._made:
            nothing = ObjectLister(())
            cluster = ListedCluster(nothing, discovery, self.entries, self.library)
            engine = Engine(cluster, self.exceptions)
            self._made[discovery] = RuleWebhook(self.policies, discovery, engine, cluster.namespace)
        return self._made[discovery]

    def cel_behind(self, path: str) -> tuple[CELPolicies, bool]:
        """Return the CEL policies that a webhook path names, and whether they are namespaced."""
        if path not in self._cel_behind:
            kind, names = path.strip("/").partition("/")[::2]
            wanted = frozenset(names.removeprefix("validate/").removeprefix("mutate/").split("/"))
            is_namespaced = kind.startswith("n")
            self._cel_behind[path] = self.cel.named(wanted, namespaced=is_namespaced), is_namespaced
        return self._cel_behind[path]

    def behind(self, discovery: Discovery, path: str) -> Sequence[RulePolicy]:
        """Return the policies behind a webhook path: the one that it names, or all with the path's failure policy."""
        whole = self.rules(discovery)
        if (id(whole), path) not in self._behind:
            failure, _, key = path.strip("/").partition("/")[2].partition("/")
            name = key.removeprefix("finegrained/")
            self._behind[id(whole), path] = [
                each
                for each in whole.policies
                if each.fails == (failure == "fail")
                and (not name or name == f"{each.namespace}/{each.name}".lstrip("/"))
            ]
        return self._behind[id(whole), path]


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
