"""The rules of all ClusterPolicies and Policies of a set, each with the policies of CEL in its place: `replay check --migrate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.json import JSON
from replay.kube.discovery import builtin_discovery
from replay.kube.schema import Schemas
from replay.kyverno.migrate.rule import Migrated, migrated_rules
from replay.kyverno.policy_schema import is_known_kind, schema_refusal, without_nulls


def migration(objects: Sequence[JSON], cluster: Sequence[JSON] = ()) -> Iterator[Migrated]:
    """The rules in the order of the set. `cluster` are objects of the cluster, for the definitions of custom kinds."""
    definitions = [each for each in cluster if each.get("kind") == "CustomResourceDefinition"]
    discovery, schemas = builtin_discovery().with_crds(definitions), Schemas(definitions)
    own = [without_nulls(each) for each in objects if is_known_kind(each)]
    own = [each for each in own if str(each["apiVersion"]).startswith("kyverno.io/") and schema_refusal(each) is None]
    exceptions = [each for each in own if each["kind"] == "PolicyException"]
    for each in own:
        if each["kind"] in ("ClusterPolicy", "Policy"):
            yield from migrated_rules(each, exceptions, discovery, schemas)
