"""What the controller of ValidatingAdmissionPolicies writes into `status.typeChecking.expressionWarnings`.

apiserver `pkg/admission/plugin/policy/validating/typechecking.go`: each validation and message is compiled once more for each kind that
the rules name, with the kind's own types. Match conditions, audit annotations and mutating policies are not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from replay.cel.ast.issues import Issues
from replay.cel.ast.tree import Ast
from replay.cel.env import Env
from replay.cel.value.types import DYN, Type
from replay.cellib.admission_types import VARIABLES_TYPE
from replay.cellib.environment import type_checking_env
from replay.cellib.expression import declared_type
from replay.cellib.schema_type import DeclaredKind
from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupVersionKind
from replay.kube.schema import Schemas

_MAX_TYPES = 10
"""How many kinds of one rule are looked at (`maxTypesToCheck`)."""
_UNRESOLVED_PARAMS_SINCE = 36
"""The minor since which `params` is declared, of any type, where the schema of their kind is not known."""
_KEYWORDS_SINCE = 31
"""The minor since which fields named like keywords are found (`SetRecognizeKeywordAsFieldName`)."""


class ExpressionWarning(Struct, frozen=True):
    """What is wrong with the types of one expression, as the server words it (`v1.ExpressionWarning`)."""

    field_ref: str
    warning: str


class TypeChecker:
    """Checks policies against the kinds of one cluster."""

    def __init__(self, discovery: Discovery, schemas: Schemas, version: KubernetesVersion) -> None:
        """`discovery` says which kinds the rules mean, `schemas` which fields they have."""
        self._discovery = discovery
        self._schemas = schemas
        self._version = version
        self._kinds: dict[GroupVersionKind, DeclaredKind | None] = {}

    def check(self, policy: JSON) -> list[ExpressionWarning]:
        """The warnings about a policy, in the order of its expressions."""
        spec = policy["spec"]
        kinds = [
            (kind, declared) for kind in self.kinds_to_check(spec) if (declared := self._declared(kind)) is not None
        ]
        if not kinds:
            return []
        env = self._env(spec)
        parsed = {path: env.parse(expression) for path, expression in _expressions(spec)}
        variables = [(each["name"], env.parse(each["expression"])) for each in spec.get("variables") or ()]
        results: dict[str, list[str]] = {path: [] for path in parsed}
        for kind, declared in kinds:
            env_of_kind = self._typed(env, declared, spec, variables)
            for path, ast in parsed.items():
                checked = ast if isinstance(ast, Issues) else env_of_kind.check(ast)
                if isinstance(checked, Issues):
                    results[path].append(f"{_shown(kind)}: {checked.to_display_string()}\n")
        return [ExpressionWarning(path, "\n".join(texts)) for path, texts in results.items() if texts]

    def kinds_to_check(self, spec: JSON) -> list[GroupVersionKind]:
        """The kinds that the rules name without a wildcard, by group, version and kind; of one rule up to 10."""
        kinds: set[GroupVersionKind] = set()
        for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
            for count, kind in enumerate(self._kinds_of(rule), 1):
                kinds.add(kind)
                if count == _MAX_TYPES:
                    return sorted(kinds)
        return sorted(kinds)

    def _kinds_of(self, rule: JSON) -> Iterator[GroupVersionKind]:
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        if any("*" in text for text in (*groups, *versions)):
            return
        resources = [each for each in rule.get("resources") or () if "*" not in each and "/" not in each]
        for group in sorted(groups):
            for version in sorted(versions):
                for resource in sorted(resources):
                    yield from kinds_for(self._discovery, group, version, resource)

    def _declared(self, kind: GroupVersionKind) -> DeclaredKind | None:
        if kind not in self._kinds:
            schema = self._schemas.for_kind(kind)
            has_keywords = self._version.minor >= _KEYWORDS_SINCE
            declared = None if schema is None else DeclaredKind(kind.kind, schema, has_keywords=has_keywords)
            self._kinds[kind] = declared
        return self._kinds[kind]

    def _params(self, spec: JSON) -> DeclaredKind | None:
        param_kind = spec.get("paramKind")
        return None if param_kind is None else self._declared(_kind_of_params(param_kind))

    def _env(self, spec: JSON) -> Env:
        """The environment of a policy's expressions, before the kind of the object is known."""
        is_declared = self._version.minor >= _UNRESOLVED_PARAMS_SINCE or self._params(spec) is not None
        return type_checking_env(self._version, has_params=spec.get("paramKind") is not None and is_declared)

    def _typed(self, env: Env, declared: DeclaredKind, spec: JSON, parsed: Sequence[tuple[str, Ast | Issues]]) -> Env:
        """The same for objects of one kind, with the types that variables then have; one with an error is of any type."""
        types: dict[str, Type] = dict.fromkeys(("object", "oldObject"), declared.type or DYN)
        variables: dict[str, Type] = {}
        structs: list[Mapping[str, Mapping[str, Type]]] = [{VARIABLES_TYPE.name: variables}, declared]
        params = self._params(spec)
        if params is not None:
            types["params"] = params.type or DYN
            structs.append(params)
        typed = env.with_variables(types, structs)
        for name, ast in parsed:
            checked = ast if isinstance(ast, Issues) else typed.check(ast)
            variables[name] = DYN if isinstance(checked, Issues) else declared_type(checked.type_map[checked.expr.id])
        return typed


def _expressions(spec: JSON) -> Iterator[tuple[str, str]]:
    for index, validation in enumerate(spec.get("validations") or ()):
        yield f"spec.validations[{index}].expression", validation["expression"]
        if validation.get("messageExpression"):
            yield f"spec.validations[{index}].messageExpression", validation["messageExpression"]


def _kind_of_params(param_kind: JSON) -> GroupVersionKind:
    group, _, version = str(param_kind.get("apiVersion") or "").rpartition("/")
    return GroupVersionKind(group, version, str(param_kind.get("kind") or ""))


def _shown(kind: GroupVersionKind) -> str:
    return f"{kind.group}/{kind.version}, Kind={kind.kind}"


def kinds_for(discovery: Discovery, group: str, version: str, resource: str) -> Sequence[GroupVersionKind]:
    """The kinds that a resource of a rule means to a REST mapper (apimachinery `meta/restmapper.go`, `KindsFor`).

    Upper case does not count, the singular is a name too, and the group "" stands for any group.
    """
    name = resource.lower()
    found: Iterable[APIResource] = (
        each
        for each in discovery
        if each.resource.version == version
        and each.resource.group == (group or each.resource.group)
        and name in (each.resource.resource, each.kind.kind.lower())
    )
    return list(dict.fromkeys(each.kind for each in found))
