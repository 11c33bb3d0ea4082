"""The CEL environment of match conditions of authorization webhooks (`k8s.io/apiserver/pkg/authorization/cel/compile.go`).

`request` is the spec of a SubjectAccessReview. There is no `authorizer`, no composition, and only the cost limit of a
single expression. Expressions are compiled with all libraries of the server, even new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec import Struct

from replay.cel.ast.footprint import footprint_of
from replay.cel.ast.operator import OPT_SELECT
from replay.cel.ast.tree import Call, Const, Select
from replay.cel.ast.walk import descendants
from replay.cel.declare.library import Library, VariableDecl
from replay.cel.env import Env
from replay.cel.program import Program
from replay.cel.value.types import STRING, Type, list_type, map_type, struct_type
from replay.cellib.environment import SCALAR_FIELDS, SCALAR_NAMES, ExpressionKind, base_env
from replay.cellib.expression import compile_expression
from replay.cellib.version import KubernetesVersion

_SPEC = struct_type("kubernetes.SubjectAccessReviewSpec")
_RESOURCE = struct_type("kubernetes.ResourceAttributes")
_NON_RESOURCE = struct_type("kubernetes.NonResourceAttributes")
_FIELD_SELECTOR = struct_type("kubernetes.FieldSelectorAttributes")
_LABEL_SELECTOR = struct_type("kubernetes.LabelSelectorAttributes")
_REQUIREMENT = struct_type("kubernetes.SelectorRequirement")
_SELECTOR_FIELDS = {"rawSelector": STRING, "requirements": list_type(_REQUIREMENT)}
_RESOURCE_TEXTS = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
_READABLE = (
    *("user", "uid", "groups", "extra"),
    *(f"resourceAttributes.{name}" for name in (*_RESOURCE_TEXTS, "fieldSelector", "labelSelector")),
    *(f"nonResourceAttributes.{name}" for name in ("path", "verb")),
)
"""All fields of `request`. Every condition may test which of the two kinds of attributes is present."""
_SELECTORS_SINCE = 32
"""Minor version since which authorizers see selectors by default (feature AuthorizeWithSelectors)."""


class CompiledCondition(Struct, frozen=True):
    """A match condition: a program, or the server's compile error, and whether it names selectors."""

    expression: str
    program: Program | None
    error: str | None
    field_selector: bool = False
    label_selector: bool = False
    reads: frozenset[str] = frozenset()
    """The fields of `request` that can influence the result, as in `resourceAttributes.name`."""
    is_internal_error: bool = False
    """Whether the server reports the error as an internal one."""


@lru_cache(maxsize=4096)
def compile_condition(version: KubernetesVersion, expression: str) -> CompiledCondition:
    """Compile a match condition for a server of that version."""
    program, _, error, is_internal = compile_expression(
        authorization_env(version), version, ExpressionKind.MATCH_CONDITION, expression
    )
    if program is None:
        return CompiledCondition(expression, None, error, is_internal_error=is_internal)
    names = set(_selected_fields(program))
    paths = footprint_of(program.ast)
    reads = frozenset(field for field in _READABLE if any(_touches(path, f"request.{field}") for path in paths))
    return CompiledCondition(expression, program, None, "fieldSelector" in names, "labelSelector" in names, reads)


def _touches(path: str, field: str) -> bool:
    """Return whether a path of a footprint is a field, is inside it, or contains it."""
    # `request.user` is no part of `request.userx`.
    inside = path.startswith(field) and path[len(field) :][:1] in ("", ".", "[", "?")
    return inside or f"{field}.".startswith(f"{path}.")


def _selected_fields(program: Program) -> Iterator[str]:
    """Yield the names of all selected fields, including optional selections and presence tests."""
    for node in descendants(program.ast.expr):
        if isinstance(node, Select):
            yield node.field
        elif isinstance(node, Call) and node.function == OPT_SELECT:
            yield from (str(each.value) for each in node.args[1:] if isinstance(each, Const))


@lru_cache(maxsize=16)
def authorization_env(version: KubernetesVersion) -> Env:
    """Return the environment of a server of that version."""
    fields: dict[str, Mapping[str, Type]] = {
        _SPEC.name: {
            "resourceAttributes": _RESOURCE,
            "nonResourceAttributes": _NON_RESOURCE,
            "user": STRING,
            "groups": list_type(STRING),
            "extra": map_type(STRING, list_type(STRING)),
            "uid": STRING,
        },
        _RESOURCE.name: _resource_fields(version.minor),
        _NON_RESOURCE.name: {"path": STRING, "verb": STRING},
        _FIELD_SELECTOR.name: _SELECTOR_FIELDS,
        _LABEL_SELECTOR.name: _SELECTOR_FIELDS,
        _REQUIREMENT.name: {"key": STRING, "operator": STRING, "values": list_type(STRING)},
    }
    declarations = Library(
        name="kubernetes.authorization",
        variables=(VariableDecl("request", _SPEC),),
        struct_fields={**SCALAR_FIELDS, **fields},
        aliases=SCALAR_NAMES,
    )
    return base_env(version, version, declarations)


def _resource_fields(minor: int) -> Mapping[str, Type]:
    fields = dict.fromkeys(_RESOURCE_TEXTS, STRING)
    if minor >= _SELECTORS_SINCE:
        fields |= {"fieldSelector": _FIELD_SELECTOR, "labelSelector": _LABEL_SELECTOR}
    return fields
