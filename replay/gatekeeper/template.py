"""ConstraintTemplates: refusals and compiled code (`constraint/pkg/client`, `drivers/rego`, `regorewriter`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from replay.gatekeeper.cel_template import CELTemplate, CELTemplateError
from replay.gatekeeper.rego.ast import Module, Ref, Scalar, Var, reference_text
from replay.gatekeeper.rego.lexer import RegoError, UnsupportedRegoError
from replay.gatekeeper.rego.parser import parse_module
from replay.gatekeeper.rego.program import Program, SourceModule
from replay.gatekeeper.rego.type_check import HOOK
from replay.json import JSON
from replay.kube.custom_schema import PRESERVE

# Schema of a kind of constraints, including the template's parameters (`constraint/pkg/client/crds`).

_WILDCARD = {"type": "string", "pattern": r"^\*?[-:a-z0-9]*\*?$"}
_STRINGS = {"type": "array", "items": {"type": "string"}}
_SELECTOR = {
    "type": "object",
    "properties": {
        "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
        "matchExpressions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["key", "operator"],
                "properties": {"key": {"type": "string"}, "operator": {"type": "string"}, "values": _STRINGS},
            },
        },
    },
}
MATCH = {
    "type": "object",
    "properties": {
        "source": {"type": "string", "enum": ["All", "Generated", "Original"]},
        "kinds": {
            "type": "array",
            "items": {"type": "object", "properties": {"apiGroups": _STRINGS, "kinds": _STRINGS}},
        },
        "scope": {"type": "string"},
        "namespaces": {"type": "array", "items": _WILDCARD},
        "excludedNamespaces": {"type": "array", "items": _WILDCARD},
        "labelSelector": _SELECTOR,
        "namespaceSelector": _SELECTOR,
        "name": _WILDCARD,
    },
}
_SCOPED = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "action": {"type": "string"},
            "enforcementPoints": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
        },
    },
}


def _constraint_schema(parameters: JSON) -> dict[str, Any]:
    """Return the schema of a kind of constraints (`crds.CreateSchema`). None means no parameters."""
    spec: dict[str, Any] = {
        "match": MATCH,
        "enforcementAction": {"type": "string", "default": "deny"},
        "scopedEnforcementActions": _SCOPED,
    }
    if parameters is not None:
        spec["parameters"] = parameters
    return {
        "type": "object",
        "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 63}}},
            "spec": {"type": "object", "properties": spec},
            "status": {PRESERVE: True},
        },
    }


def _with_any_fields(schema: JSON) -> JSON:
    """Return a legacy schema that allows all fields (`AddPreserveUnknownFields`)."""
    new = dict(schema or {})
    kind = new.get("type") or ""
    if kind in ("", "object"):
        new[PRESERVE] = True
    elif kind == "array" and not new.get("items"):
        new["items"] = {PRESERVE: True}
    if "properties" in new:
        new["properties"] = {name: _with_any_fields(part) for name, part in (new["properties"] or {}).items()}
    if isinstance(new.get("items"), dict):
        new["items"] = _with_any_fields(new["items"])
    if isinstance(new.get("additionalProperties"), dict):
        new["additionalProperties"] = _with_any_fields(new["additionalProperties"])
    return new


def _untyped_field(
    schema: JSON, path: str = "spec.validation.openAPIV3Schema.properties[spec].properties[parameters]"
) -> str | None:
    """Return the error for the first field without a type, which a structural schema needs, or None."""
    if not isinstance(schema, dict):
        return None
    if not schema.get("type") and not schema.get(PRESERVE) and not schema.get("x-kubernetes-int-or-string"):
        return f"{path}.type: Required value: must not be empty for specified {'array items' if path.endswith('.items') else 'object fields'}"
    for name, part in sorted((schema.get("properties") or {}).items()):
        if found := _untyped_field(part, f"{path}.properties[{name}]"):
            return found
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict) and (found := _untyped_field(schema[key], f"{path}.{key}")):
            return found
    return None


TARGET = "admission.k8s.gatekeeper.sh"
REGO, CEL = "Rego", "K8sNativeValidation"
_LIBRARY = "lib"


class RefusedError(Exception):
    """Object that Gatekeeper refuses. `str()` is the message."""


class ConstraintTemplate(Struct, frozen=True):
    """Template: its kind of constraints, their schema, and the compiled code."""

    name: str
    kind: str
    schema: dict[str, Any]
    operations: tuple[str, ...]
    engine: str
    rego: Program | None = None
    rego_text: str = ""
    cel: CELTemplate | None = None
    unsupported: str = ""
    """Reason if the code is not supported here."""

    def handles(self, operation: str) -> bool:
        """Return whether the template handles an operation."""
        return not self.operations or "*" in self.operations or operation in self.operations


def template_of(value: JSON, engine: str = "") -> ConstraintTemplate:
    """Return a template, compiled for an engine. Raises RefusedError.

    `engine` is used if the template has code for it, otherwise the engine that Gatekeeper prefers.
    """
    name = (value.get("metadata") or {}).get("name") or ""
    spec = value.get("spec") or {}
    targets = spec.get("targets") or []
    if len(targets) != 1:
        raise RefusedError("invalid ConstraintTemplate: must declare exactly one target")
    target = targets[0]
    if not target.get("target"):
        raise RefusedError("invalid ConstraintTemplate: target name must not be empty")
    crd = (spec.get("crd") or {}).get("spec") or {}
    kind = (crd.get("names") or {}).get("kind") or ""
    if not kind:
        raise RefusedError(f'invalid ConstraintTemplate: ConstraintTemplate "{name}" does not specify CRD Kind')
    if name.lower() != kind.lower():
        raise RefusedError(
            f'invalid ConstraintTemplate: the ConstraintTemplate\'s name "{name}" is not equal to the lowercase of CRD\'s Kind: "{kind.lower()}"'
        )
    if target["target"] != TARGET:
        raise RefusedError(
            f'invalid ConstraintTemplate: target "{target["target"]}" not recognized, known targets [{TARGET}]'
        )
    schema = _parameters_schema(crd.get("validation"), str(value.get("apiVersion") or ""))
    if problem := _untyped_field(schema):
        raise RefusedError(f"invalid ConstraintTemplate: {problem}")
    operations = tuple(target.get("operations") or ())
    if "*" in operations and len(operations) > 1:
        raise RefusedError("if '*' is present, must not specify other operations")
    sources = _sources(target)
    # Gatekeeper gives CEL priority over Rego.
    chosen = engine if engine in sources else CEL if CEL in sources else REGO if REGO in sources else ""
    if not chosen:
        raise RefusedError(
            "no language driver is installed that handles this constraint template: "
            'available drivers: map[K8sNativeValidation:1 Rego:2], wanted ""'
        )
    common = (name, kind, _constraint_schema(schema), operations, chosen)
    if chosen == CEL:
        try:
            return ConstraintTemplate(*common, cel=CELTemplate(name, sources[CEL]))
        except CELTemplateError as error:
            raise RefusedError(str(error)) from None
    try:
        return ConstraintTemplate(*common, rego=_program(sources[REGO]), rego_text=sources[REGO]["rego"])
    except (UnsupportedRegoError, MemoryError) as error:
        return ConstraintTemplate(*common, unsupported=str(error))
    except RegoError as error:
        what = "invalid ConstraintTemplate" if "_parse_error" in str(error) else "unable to compile modules"
        number = "1 error occurred: " if error.count == 1 else f"{error.count} errors occurred:\n"
        raise RefusedError(f"{what}: {number}{error}") from None


def engines_of(value: JSON) -> tuple[str, ...]:
    """Return the engines that a template has code for."""
    targets = (value.get("spec") or {}).get("targets") or [{}]
    return tuple(name for name in (CEL, REGO) if name in _sources(targets[0]))


def _parameters_schema(validation: JSON, api_version: str) -> JSON:
    validation = validation if isinstance(validation, dict) else None
    legacy = (validation or {}).get("legacySchema")
    is_legacy = bool(legacy) if legacy is not None else not api_version.endswith("/v1")
    schema = (validation or {}).get("openAPIV3Schema")
    if schema is None and validation is None and not is_legacy:
        return None
    return _with_any_fields(schema) if is_legacy else schema


def _sources(target: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the code by engine. `rego` of a target overrides its `code` (`Convert_v1_Target_To_templates_Target`)."""
    found: dict[str, JSON] = {}
    for code in target.get("code") or ():
        found.setdefault(code.get("engine") or "", code.get("source") or {})
    if target.get("rego"):
        found[REGO] = {"rego": target["rego"], "libs": target.get("libs") or []}
    return found


def _program(source: JSON) -> Program:
    """Compile Rego: the template as `data.template`, its libraries below `data.lib`. Raises RefusedError and RegoError."""
    rego = source.get("rego")
    if not isinstance(rego, str):
        raise RefusedError("missing required field in ConstraintTemplate: rego")
    is_v1 = source.get("version") == "v1"
    entry = parse_module(rego, is_v1=is_v1)
    if not any(rule.head.name[0] == "violation" for rule in entry.rules):
        raise RefusedError(
            "invalid ConstraintTemplate: invalid rego: invalid module: missing required rules: [violation]"
        )
    modules = [SourceModule(msgspec.structs.replace(entry, package=("template",)), "template", is_v1=is_v1)]
    for number, text in enumerate(source.get("libs") or ()):
        file = f'libs["lib_{number}"]'
        library = parse_module(text, is_v1=is_v1, file=file)
        if library.package[:1] != (_LIBRARY,) or len(library.package) < 2:
            path = "data." + ".".join(library.package)
            raise RefusedError(f"invalid ConstraintTemplate: invalid lib prefix: path {path} not found in lib prefixes")
        modules.append(SourceModule(library, file, is_v1=is_v1))
    for module in [*modules[1:], modules[0]]:
        _check_imports(module.module)
    for module in [*modules[1:], modules[0]]:
        _check_references(module.module, module.file)
    hooks = "hooks.hooks_builtin"
    reader = SourceModule(parse_module(HOOK, is_v1=False, file=hooks), hooks, is_v1=False)
    return Program(modules, ("template", "violation"), reader)


def _check_imports(module: Module) -> None:
    """Raise RefusedError unless all imports are libraries or keywords (`RegoRewriter.checkImport`)."""
    for found in module.imports:
        path = ".".join(found.path)
        if found.path[0] == "input":
            raise RefusedError(f'invalid ConstraintTemplate: invalid import: cannot import input: "{path}"')
        if found.path[:2] != ("data", _LIBRARY) and found.path[0] != "future":
            raise RefusedError(f'invalid ConstraintTemplate: invalid import: bad import: "{path}"')


def _check_references(module: Module, file: str) -> None:
    """Raise RefusedError if a module reads anything of `data` but libraries and inventory (`RegoRewriter.checkRef`)."""
    refused = [
        f"disallowed ref {reference_text(ref)}"
        for rule in module.rules
        for ref in _data_references(rule)
        if not _is_allowed(ref)
    ]
    if refused:
        raise RefusedError(
            f"invalid ConstraintTemplate: invalid data references: check refs failed on module {{{file}}}: errors ({len(refused)}):\n"
            + "\n".join(refused)
            + "\n"
        )


def _is_allowed(ref: Ref | Var) -> bool:
    first = ref.operands[0] if isinstance(ref, Ref) and ref.operands else None
    return isinstance(first, Scalar) and first.value in ("inventory", _LIBRARY)


def _data_references(node: Any) -> Iterator[Ref | Var]:
    """Return the references to `data`, except those inside of other references, which Gatekeeper does not check."""
    if isinstance(node, Ref):
        if isinstance(node.head, Var) and node.head.name == "data":
            yield node
    elif isinstance(node, Var):
        if node.name == "data":
            yield node
    elif isinstance(node, tuple):
        for part in node:
            yield from _data_references(part)
    elif isinstance(node, msgspec.Struct):
        for name in node.__struct_fields__:
            yield from _data_references(getattr(node, name))
