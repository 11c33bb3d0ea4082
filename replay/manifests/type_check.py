"""The warnings of the ValidatingAdmissionPolicy controller in `status.typeChecking.expressionWarnings`.

apiserver `pkg/admission/plugin/policy/validating/typechecking.go`: each validation and message is compiled again for
each kind that the rules name, with the kind's own types. Match conditions, audit annotations and mutating policies are
not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from replay.cel.ast import operator
from replay.cel.ast.issues import Issues
from replay.cel.ast.tree import Ast, Const, Expr
from replay.cel.check.checker import check
from replay.cel.check.diagnostics import Diagnostics
from replay.cel.env import Env
from replay.cel.value.types import DYN, Kind, Type
from replay.cel.value.values import Value
from replay.cellib.declared_type import VARIABLES_TYPE, DeclaredKind
from replay.cellib.environment import type_checking_env
from replay.cellib.expression import declared_type
from replay.cellib.library.authorizer import RESOURCE_CHECK_TYPE
from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupVersionKind
from replay.kube.schema import Schemas
from replay.manifests.lint.reachable import Facts, evaluator, reachable, tested_paths
from replay.manifests.lint.reading import SchemaPath

_MAX_TYPES = 10
"""Maximum number of kinds that are checked (`maxTypesToCheck`)."""
_UNRESOLVED_PARAMS_SINCE = 36
"""Minor version since which `params` is declared, of type dyn, if the schema of its kind is unknown."""
_KEYWORDS_SINCE = 31
"""Minor version since which fields named like keywords are found (`SetRecognizeKeywordAsFieldName`)."""


_EQUALITY = frozenset({operator.EQUALS, operator.NOT_EQUALS})
_OPTIONALS = frozenset({"or", "orValue"})
_OF_ANY_TYPES = _OPTIONALS | {operator.CONDITIONAL}
"""Functions whose arguments may have different types at run time."""
_OBJECTS = ("object", "oldObject")


class ExpressionWarning(Struct, frozen=True):
    """Type error of one expression, in the server's words (`v1.ExpressionWarning`)."""

    field_ref: str
    warning: str
    can_fail: bool = True
    """Whether an evaluation can fail in this way. At run time, objects are maps and quantities are texts."""


class TypeChecker:
    """Type checker of policies against the kinds of one cluster."""

    def __init__(self, discovery: Discovery, schemas: Schemas, version: KubernetesVersion) -> None:
        """`discovery` resolves the kinds of rules, `schemas` has their fields."""
        self._discovery = discovery
        self._schemas = schemas
        self._version = version
        self._kinds: dict[tuple[GroupVersionKind, bool], DeclaredKind | None] = {}

    def check(self, policy: JSON) -> list[ExpressionWarning]:
        """Return the warnings about a policy, in the order of its expressions."""
        spec = policy["spec"]
        kinds = [kind for kind in self.kinds_to_check(spec) if self._declared(kind) is not None]
        if not kinds:
            return []
        env = self._env(spec)
        parsed = {path: env.parse(expression) for path, expression in _expressions(spec)}
        variables = [(each["name"], env.parse(each["expression"])) for each in spec.get("variables") or ()]
        results: dict[str, dict[GroupVersionKind, str]] = {path: {} for path in parsed}
        for kind in kinds:
            env_of_kind = self._typed(env, kind, spec, variables)
            for path, ast in parsed.items():
                checked = ast if isinstance(ast, Issues) else env_of_kind.check(ast)
                if isinstance(checked, Issues):
                    results[path][kind] = f"{_kind_text(kind)}: {checked.to_display_string()}\n"
        return [
            ExpressionWarning(
                path,
                "\n".join(texts.values()),
                self._can_fail(_evaluated_before(path, parsed), texts, kinds, spec, variables),
            )
            for path, texts in results.items()
            if texts
        ]

    def _can_fail(
        self,
        asts: Sequence[Ast | Issues],
        failing: Iterable[GroupVersionKind],
        kinds: Sequence[GroupVersionKind],
        spec: JSON,
        variables: Sequence[tuple[str, Ast | Issues]],
    ) -> bool:
        """Return whether the type error can happen at run time, for some kind.

        The failing part must be reachable for objects of that kind, and wrong for values too. The last of `asts` is the
        expression. It is evaluated only if those before it are false.
        """
        parsed = [ast for ast in asts if not isinstance(ast, Issues)]
        if len(parsed) < len(asts):
            return True
        env = self._env(spec)
        for kind in failing:
            known = self._known(kind, kinds, variables, parsed, env)
            *before, expression = (_reachable_part(ast, known, env) for ast in parsed)
            if any(isinstance(each.expr, Const) and each.expr.value is True for each in before):
                continue
            left = [
                (name, each if isinstance(each, Issues) else _reachable_part(each, known, env))
                for name, each in variables
            ]
            typed = self._typed(env, kind, spec, left, as_values=True)
            if isinstance(check(expression, typed.declarations, typed.release, _OfValues), Issues):
                return True
        return False

    def _known(
        self,
        kind: GroupVersionKind,
        kinds: Sequence[GroupVersionKind],
        variables: Sequence[tuple[str, Ast | Issues]],
        parsed: Sequence[Ast],
        env: Env,
    ) -> Facts:
        """Return the facts about an object of a kind.

        They are its kind, the variables that follow from it, and fields that only objects of other kinds have.
        """
        values: dict[SchemaPath, Value] = {
            ("request", "kind", "group"): kind.group,
            ("request", "kind", "version"): kind.version,
            ("request", "kind", "kind"): kind.kind,
        }
        for name in _OBJECTS:
            values |= {(name, "kind"): kind.kind, (name, "apiVersion"): kind.api_version}
        asts = [each for _, each in variables if not isinstance(each, Issues)]
        tested = frozenset[SchemaPath]().union(*(tested_paths(each.expr) for each in (*asts, *parsed)))
        absent = frozenset(
            path
            for path in tested
            if path[0] in _OBJECTS
            and self._has(kind, path[1:-1])  # else the test itself fails
            and not self._has(kind, path[1:])
            and any(self._has(each, path[1:]) for each in kinds)
        )
        presence = dict.fromkeys(absent, False)
        for name, each in variables:
            left = None if isinstance(each, Issues) else _reachable_part(each, Facts(values, presence), env).expr
            if isinstance(left, Const):
                values["variables", name] = left.value
        return Facts(values, presence)

    def _has(self, kind: GroupVersionKind, path: SchemaPath) -> bool:
        declared = self._declared(kind, has_hidden=True)
        return declared is None or declared.has(path)

    def kinds_to_check(self, spec: JSON) -> list[GroupVersionKind]:
        """Return the kinds that the rules name without a wildcard, sorted. The search ends when a rule has named 10 kinds."""
        kinds: set[GroupVersionKind] = set()
        for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
            for count, kind in enumerate(self._kinds_of(rule), 1):
                kinds.add(kind)
                # As in `typesToCheck`: the count begins anew with each rule, but the end is that of all rules.
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

    def _declared(self, kind: GroupVersionKind, *, has_hidden: bool = False) -> DeclaredKind | None:
        key = kind, has_hidden
        if key not in self._kinds:
            schema = self._schemas.for_kind(kind)
            has_keywords = self._version.minor >= _KEYWORDS_SINCE
            self._kinds[key] = (
                None
                if schema is None
                else DeclaredKind(kind.kind, schema, has_keywords=has_keywords, has_hidden=has_hidden)
            )
        return self._kinds[key]

    def _params(self, spec: JSON, *, has_hidden: bool = False) -> DeclaredKind | None:
        param_kind = spec.get("paramKind")
        return None if param_kind is None else self._declared(_kind_of_params(param_kind), has_hidden=has_hidden)

    def _env(self, spec: JSON) -> Env:
        """Return the environment of a policy's expressions, before the kind of the object is known."""
        is_declared = self._version.minor >= _UNRESOLVED_PARAMS_SINCE or self._params(spec) is not None
        return type_checking_env(self._version, has_params=spec.get("paramKind") is not None and is_declared)

    def _typed(
        self,
        env: Env,
        kind: GroupVersionKind,
        spec: JSON,
        parsed: Sequence[tuple[str, Ast | Issues]],
        *,
        as_values: bool = False,
    ) -> Env:
        """Return the environment for objects of one kind, with the types of variables.

        A variable with an error has type dyn.
        """
        declared, params = self._declared(kind, has_hidden=as_values), self._params(spec, has_hidden=as_values)
        types = {"authorizer.requestResource": RESOURCE_CHECK_TYPE} if as_values else {}
        variables: dict[str, Type] = {}
        structs: list[Mapping[str, Mapping[str, Type]]] = [{VARIABLES_TYPE.name: variables}]
        for names, each in ((_OBJECTS, declared), (("params",), params)):
            if each is not None:
                types |= dict.fromkeys(names, each.type or DYN)
                structs.append(each)
        typed = env.with_variables(types, structs)
        for name, ast in parsed:
            checked = ast if isinstance(ast, Issues) else typed.check(ast)
            variables[name] = DYN if isinstance(checked, Issues) else declared_type(checked.type_map[checked.expr.id])
        return typed


class _OfValues(Diagnostics):
    """Diagnostics of errors at run time. Objects are maps then, so only scalars can have a wrong type."""

    def no_matching_overload(self, node: Expr, function: str, args: Sequence[Type], *, member: bool) -> None:
        """Report an overload that does not fit any values of these types."""
        shapes = [_shape(each) for each in args]
        is_optional = function not in _OPTIONALS or args[0].kind is Kind.OPAQUE
        if (function in _OF_ANY_TYPES and is_optional) or (function in _EQUALITY and Kind.NULL in shapes):
            fits = True
        elif Kind.STRUCT not in (inner for each in args for inner in _kinds_in(each)):
            fits = False
        elif function in (operator.INDEX, operator.OPT_INDEX, operator.IN, "size"):
            container, key = (shapes[-1], shapes[0]) if function == operator.IN else (shapes[0], shapes[-1])
            fits = container is not Kind.MAP or len(args) == 1 or key is Kind.STRING
        else:
            fits = len(set(shapes)) == 1 and (shapes[0] is Kind.LIST or function in _EQUALITY)
        if not fits:
            super().no_matching_overload(node, function, args, member=member)

    def not_a_comprehension_range(self, node: Expr, type_: Type) -> None:
        """Report a loop over a value without elements. An object has its fields."""
        if type_.kind is not Kind.STRUCT:
            super().not_a_comprehension_range(node, type_)


def _shape(type_: Type) -> Kind:
    """Return the kind of a value at run time: an object is a map, and an optional is its value."""
    if type_.kind is Kind.OPAQUE and type_.parameters:
        return _shape(type_.parameters[0])
    return Kind.MAP if type_.kind is Kind.STRUCT else type_.kind


def _kinds_in(type_: Type) -> Iterator[Kind]:
    yield type_.kind
    for parameter in type_.parameters:
        yield from _kinds_in(parameter)


def _reachable_part(ast: Ast, known: Facts, env: Env) -> Ast:
    """Return the reachable part of an expression."""
    return replace(ast, expr=reachable(ast.expr, known, evaluator(env, ast)), macro_calls={})


def _expressions(spec: JSON) -> Iterator[tuple[str, str]]:
    for index, validation in enumerate(spec.get("validations") or ()):
        yield f"spec.validations[{index}].expression", validation["expression"]
        if validation.get("messageExpression"):
            yield f"spec.validations[{index}].messageExpression", validation["messageExpression"]


def _evaluated_before(path: str, parsed: Mapping[str, Ast | Issues]) -> list[Ast | Issues]:
    """Return the expressions that must be false for an expression, and then the expression itself.

    A message is only evaluated after its validation was false.
    """
    validation = path.replace(".messageExpression", ".expression")
    return [parsed[path]] if path == validation else [parsed[validation], parsed[path]]


def _kind_of_params(param_kind: JSON) -> GroupVersionKind:
    group, _, version = str(param_kind.get("apiVersion") or "").rpartition("/")
    return GroupVersionKind(group, version, str(param_kind.get("kind") or ""))


def _kind_text(kind: GroupVersionKind) -> str:
    return f"{kind.group}/{kind.version}, Kind={kind.kind}"


def kinds_for(discovery: Discovery, group: str, version: str, resource: str) -> Sequence[GroupVersionKind]:
    """Return the kinds that a resource of a rule means to a REST mapper (apimachinery `meta/restmapper.go`, `KindsFor`).

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
