"""Warnings about apply configurations that write atomic fields.

The API server refuses these (`mutating/patch/smd.go`, `findAtomics`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.cel.ast.tree import Const, StructExpr, StructField
from replay.cel.ast.walk import descendants
from replay.kube.schema import Schema
from replay.manifests.expression import CheckedExpression, ExpressionKind
from replay.manifests.lint import catalogue
from replay.manifests.lint.warning import LintContext, SilenceableWarning, named_resources, warned
from replay.manifests.loader import LoadedObject


def lint_atomics(
    policy: LoadedObject, compiled: Sequence[CheckedExpression], context: LintContext
) -> Iterator[SilenceableWarning]:
    """Yield a warning for each field that is atomic in all known kinds that the policy matches."""
    applying = [each for each in compiled if each.compiled.kind is ExpressionKind.APPLY_CONFIGURATION]
    if not applying:
        return
    schemas = list(_schemas(policy, context))
    for checked in applying:
        assert checked.compiled.program is not None
        written = dict.fromkeys(
            (*node.type_name.split(".")[1:], field.field)
            for node in descendants(checked.compiled.program.ast.expr)
            if isinstance(node, StructExpr) and node.type_name.partition(".")[0] == "Object"
            for field in node.fields
            if _has_value(field)
        )
        for path in sorted(written):
            if schemas and all(schema is not None and _is_atomic(schema, path) for schema in schemas):
                message = f"`{'.'.join(path)}` is atomic: the API server refuses an ApplyConfiguration that writes it"
                yield warned(policy, catalogue.ATOMIC_FIELD, message, checked.path)


def _schemas(policy: LoadedObject, context: LintContext) -> Iterator[Schema | None]:
    """Yield the schemas of the kinds that the policy matches. A schema is None if it is unknown."""
    for resource, subresource in named_resources(policy, context.discovery):
        kind = None if resource is None else resource.subresources.get(subresource) if subresource else resource.kind
        yield None if kind is None else context.schemas.for_kind(kind)


def _has_value(field: StructField) -> bool:
    """Return whether a field of a literal is certain to be written."""
    return not (field.optional or (isinstance(field.value, Const) and field.value.value is None))


def _is_atomic(schema: Schema, path: Sequence[str]) -> bool:
    """Return whether a list, map or struct at a path is atomic. Items of lists have the path of their list."""
    for name in path:
        while (items := schema.items) is not None:
            schema = items
        field = schema.fields.get(name)
        if field is None:
            return False
        schema = field
    return schema.list_type in ("", "atomic") if schema.items is not None else schema.map_type == "atomic"
