"""Conversion of API objects into static manifests: names, references and files as in `staticManifestsDir` (KEP-5793).

Some objects cannot be static manifests. They are left out, with advice. Parameters that are one constant object can be
written into the policy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from msgspec import Struct

from replay.cel.ast.tree import Ast, Comprehension, Ident, Select
from replay.cel.ast.walk import descendants
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.names import dns1123_subdomain
from replay.manifests.expression import CheckedExpression
from replay.manifests.loader import LoadedObject
from replay.manifests.plugin import CHAIN_ORDER, PluginName
from replay.manifests.static_rule import STATIC_SUFFIX

# Parameters written into a policy: `params` becomes a variable with one constant object.

PARAMS = "params"
_STEP = re.compile(r"\.?([A-Za-z]+)|\[(\d+)\]")
_METADATA = ("name", "namespace", "labels", "annotations")


class _NotConstantError(Exception):
    """Parameters of a binding that cannot be written into its policy. `advice` says what to do."""

    def __init__(self, reason: str, advice: str) -> None:
        """`reason` says why, `advice` what to do."""
        super().__init__(reason)
        self.advice = advice


def _with_params(policy: dict[str, Any], expressions: Sequence[CheckedExpression], param: JSON) -> dict[str, Any]:
    """Return a policy that reads a parameter from a variable, or in match conditions from a literal.

    The constant has the parts of the parameter that the expressions read. Raises NotConstantError if an expression
    cannot be rewritten.
    """
    trees = [(each.path, _tree(each)) for each in expressions]
    for validation in policy["spec"].get("validations", ()):
        _keep_message(validation)
    constant = f"dyn({_literal(_read(param, [tree for _, tree in trees]))})"
    names = {variable["name"] for variable in policy["spec"].get("variables", ())}
    name = next(
        each for each in (PARAMS, "param", *(f"{PARAMS}{n}" for n in range(len(names) + 1))) if each not in names
    )
    for path, tree in trees:
        # apiserver: match conditions see no variables
        text = constant if path.startswith("spec.matchConditions") else f"variables.{name}"
        _put(policy, path, _rewritten(tree, text))
    spec = {key: each for key, each in policy["spec"].items() if key != "paramKind"}
    spec["variables"] = [{"name": name, "expression": constant}, *spec.get("variables", ())]
    return {**policy, "spec": spec}


def _keep_message(validation: dict[str, Any]) -> None:
    """Set the default message, which contains the original expression (`validator.go`, `failed expression`)."""
    text = validation["expression"].strip()
    if not validation.get("message") and not validation.get("messageExpression") and "\n" not in text:
        validation["message"] = f"failed expression: {text}"


def _tree(expression: CheckedExpression) -> Ast:
    program = expression.compiled.program
    if program is None:
        raise _NotConstantError(f"{expression.path} does not compile", "mend the expression")
    tree = program.ast
    for node in descendants(tree.expr):
        if isinstance(node, Comprehension) and PARAMS in (node.iter_var, node.iter_var2):
            raise _NotConstantError(f"{expression.path} has a loop variable `{PARAMS}`", "give it another name")
    return tree


def _read(param: JSON, trees: Iterable[Ast]) -> JSON:
    """Return the parts of a parameter that expressions may read.

    They are the selected fields, or everything if an expression uses the parameter as a whole.
    """
    fields: set[str] = set()
    for tree in trees:
        nodes = descendants(tree.expr)
        # By identity, because equal nodes stand in several places of an expression.
        selected = {id(node.operand): node.field for node in nodes if isinstance(node, Select)}
        for node in nodes:
            if isinstance(node, Ident) and node.name == PARAMS:
                if id(node) not in selected:
                    fields |= set(param)
                else:
                    fields.add(selected[id(node)])
    kept = {name: each for name, each in param.items() if name in fields}
    if "metadata" in kept:
        kept["metadata"] = {name: each for name, each in kept["metadata"].items() if name in _METADATA}
    return kept


def _rewritten(tree: Ast, text: str) -> str:
    """Return the text of an expression with `text` in the place of `params`."""
    source = tree.source.text
    nodes = descendants(tree.expr)
    places = {tree.positions[node.id] for node in nodes if isinstance(node, Ident) and node.name == PARAMS}
    # From the end, so that earlier positions stay valid.
    for place in sorted(places, reverse=True):
        if not source.startswith(PARAMS, place):
            raise _NotConstantError(f"`{source}` cannot be rewritten", "write the parameters into it by hand")
        source = source[:place] + text + source[place + len(PARAMS) :]
    return source


def _literal(value: JSON) -> str:
    """Return JSON as a CEL literal.

    The server accepts no literal whose parts have different types, unless each part is dyn.
    """
    if isinstance(value, dict):
        parts = zip(map(_literal, value), _parts(list(value.values())), strict=True)
        return "{" + ", ".join(f"{key}: {each}" for key, each in parts) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_parts(value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # the escapes of JSON are escapes of CEL too


def _parts(values: Sequence[JSON]) -> Iterable[str]:
    is_plain = len({type(each) for each in values}) <= 1 and not any(isinstance(each, dict | list) for each in values)
    return (_literal(each) if is_plain else f"dyn({_literal(each)})" for each in values)


def _put(policy: dict[str, Any], path: str, text: str) -> None:
    """Set the field at a path such as `spec.validations[0].expression`."""
    steps = [name or int(index) for name, index in _STEP.findall(path)]
    holder: Any = policy
    for step in steps[:-1]:
        holder = holder[step]
    holder[steps[-1]] = text


FindParam = Callable[[str, str, str, str], JSON]
"""Function that returns the object of an apiVersion, kind, namespace and name, or None if it is unknown."""
_KEPT_METADATA = ("name", "labels", "annotations")
_SELECTORS = ("namespaceSelector", "objectSelector")
"""Selectors that match everything if they are empty or absent."""
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class StaticFile(Struct, frozen=True):
    """One file below a plugin's directory: a policy with its bindings, or a webhook configuration."""

    plugin: PluginName
    name: str
    objects: tuple[JSON, ...]


class NotConverted(Struct, frozen=True):
    """An object that cannot be a static manifest, with the reason and advice."""

    object: LoadedObject
    problem: str
    advice: str

    @property
    def text(self) -> str:
        """The problem on one line, with the position first."""
        origin, what = self.object.origin, f"{self.object.kind}/{self.object.name}"
        place = f"{origin.file}:{origin.line}" if origin.line else origin.file
        return f"{place}: {what}: {self.problem}: {self.advice}"


class Conversion(Struct, frozen=True):
    """The converted files, the objects left out, and hints about the converted ones."""

    files: tuple[StaticFile, ...]
    not_converted: tuple[NotConverted, ...]
    hints: tuple[str, ...]


class _Converter(Struct):
    urls: Mapping[str, str]
    find_param: FindParam
    not_converted: list[NotConverted]
    hints: list[str]

    def refuse(self, obj: LoadedObject, problem: str, advice: str) -> None:
        self.not_converted.append(NotConverted(obj, problem, advice))

    def files(self, objects: Sequence[LoadedObject]) -> Iterator[StaticFile]:
        by_kind: dict[str, list[LoadedObject]] = {}
        for obj in objects:
            if problems := dns1123_subdomain(static_name(obj.name)):  # the name of a file, too
                self.refuse(obj, f"its name with {STATIC_SUFFIX}: {problems[0]}", "give it another name")
            else:
                by_kind.setdefault(obj.kind, []).append(obj)
        for plugin in CHAIN_ORDER:
            if plugin.is_webhook:
                yield from self._webhooks(plugin, by_kind.get(plugin.kinds[0], []))
            else:
                policies, bindings = (by_kind.get(kind, []) for kind in plugin.kinds)
                yield from self._policies(plugin, policies, bindings)

    def _policies(
        self, plugin: PluginName, policies: Sequence[LoadedObject], bindings: Sequence[LoadedObject]
    ) -> Iterator[StaticFile]:
        by_policy: dict[str, list[LoadedObject]] = {}
        for binding in bindings:
            by_policy.setdefault(binding.value["spec"]["policyName"], []).append(binding)
        for policy in policies:
            bound = by_policy.pop(policy.name, [])
            if not bound:
                self.hints.append(f"{policy.kind}/{policy.name} has no binding, without which it decides nothing")
            written = tuple(self._bound(policy, bound))
            if written:
                yield StaticFile(plugin, policy.name.removesuffix(STATIC_SUFFIX), written)
        for others in by_policy.values():
            for binding in others:
                name = binding.value["spec"]["policyName"]
                advice = "convert both together, a static binding has a static policy"
                self.refuse(binding, f"its policy `{name}` is not here", advice)

    def _bound(self, policy: LoadedObject, bindings: Sequence[LoadedObject]) -> Iterator[JSON]:
        """Yield a policy with its bindings.

        A policy with parameters is written once for each binding, with the parameters as constants.
        """
        if policy.value["spec"].get("paramKind") is None:
            yield _static(policy)
            for binding in bindings:
                if binding.value["spec"].get("paramRef") is not None:
                    self.refuse(binding, "spec.paramRef has no paramKind in its policy", "remove it")
                else:
                    yield _static_binding(binding, static_name(policy.name))
            return
        for binding in bindings:
            try:
                param = self._param(policy, binding)
                own = _with_params(_static(policy), policy.expressions, param)
            except _NotConstantError as error:
                self.refuse(binding, f"spec.paramRef is not supported for static manifests, and {error}", error.advice)
                continue
            name = policy.name if len(bindings) == 1 else f"{policy.name}-{binding.name}"
            own["metadata"]["name"] = static_name(name)
            yield own
            yield _static_binding(binding, static_name(name))
            metadata = param["metadata"]
            what = f"{param['kind']} {'/'.join(filter(None, (metadata.get('namespace'), metadata['name'])))}"
            self.hints.append(
                f"{policy.kind}/{policy.name}: {what} is written into it; later changes of that object do not count"
            )
        if not bindings:
            self.refuse(policy, "spec.paramKind is not supported for static manifests", "give its binding with it")

    def _param(self, policy: LoadedObject, binding: LoadedObject) -> JSON:
        """Return the one object that a binding names. Raises NotConstantError."""
        kind, ref = policy.value["spec"]["paramKind"], binding.value["spec"].get("paramRef")
        if ref is None:
            raise _NotConstantError("there is none", "give the binding a paramRef, or the policy no paramKind")
        if not ref.get("name"):
            advice = "write one policy for each object that the selector means, or keep the policy in the API"
            raise _NotConstantError("a selector may mean any number of objects", advice)
        param = self.find_param(kind["apiVersion"], kind["kind"], ref.get("namespace") or "", ref["name"])
        if param is None:
            where = f"{ref['namespace']}/{ref['name']}" if ref.get("namespace") else ref["name"]
            advice = "give it with --cluster, or keep the policy in the API"
            raise _NotConstantError(f"{kind['kind']} {where} is not known as one object", advice)
        return param

    def _webhooks(self, plugin: PluginName, configurations: Sequence[LoadedObject]) -> Iterator[StaticFile]:
        for configuration in configurations:
            value = _static(configuration)
            services = [each for each in value["webhooks"] if each["clientConfig"].get("service") is not None]
            unknown = [each["name"] for each in services if each["name"] not in self.urls]
            if unknown:
                named = ", ".join(f"`{name}`" for name in unknown)
                self.refuse(
                    configuration,
                    f"clientConfig.service is not supported for static manifests ({named})",
                    "name an address that the API server reaches without the cluster, with --url NAME=https://…",
                )
                continue
            for webhook in services:
                config = {name: each for name, each in webhook["clientConfig"].items() if name != "service"}
                webhook["clientConfig"] = {"url": self.urls[webhook["name"]], **config}
                self.hints.append(
                    f"webhook `{webhook['name']}`: its certificate must be one for {self.urls[webhook['name']]}"
                )
            yield StaticFile(plugin, configuration.name.removesuffix(STATIC_SUFFIX), (value,))


def convert(objects: Iterable[LoadedObject], urls: Mapping[str, str], find_param: FindParam) -> Conversion:
    """Return API objects as static manifests. `urls` are the addresses of webhooks with a Service, by webhook name.

    Raises ManifestError for the URL of an unknown webhook.
    """
    every = tuple(objects)
    names = {webhook["name"] for obj in every for webhook in obj.value.get("webhooks") or ()}
    for name in urls:
        if name not in names:
            there_are = ", ".join(f"`{each}`" for each in sorted(names)) or "none"
            raise ManifestError(f"no webhook `{name}`; there are: {there_are}", path="--url")
    converter = _Converter(urls, find_param, [], [])
    return Conversion(tuple(converter.files(every)), tuple(converter.not_converted), tuple(converter.hints))


def static_name(name: str) -> str:
    """Return the name of an object as a static manifest."""
    return name if name.endswith(STATIC_SUFFIX) else f"{name}{STATIC_SUFFIX}"


def _static(obj: LoadedObject) -> dict[str, Any]:
    """Return an object under its static name, without the fields that the server wrote."""
    value = _without_nulls(deepcopy(obj.value))
    metadata = {key: value["metadata"][key] for key in _KEPT_METADATA if key in value["metadata"]}
    annotations = {key: text for key, text in metadata.pop("annotations", {}).items() if key != _APPLIED}
    metadata["name"] = static_name(obj.name)
    if annotations:
        metadata["annotations"] = annotations
    rest = {key: each for key, each in value.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    return {"apiVersion": value["apiVersion"], "kind": value["kind"], "metadata": metadata, **rest}


def _static_binding(binding: LoadedObject, policy_name: str) -> dict[str, Any]:
    value = _static(binding)
    value["spec"].pop("paramRef", None)
    value["spec"]["policyName"] = policy_name
    return value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if each is not None and not (key in _SELECTORS and not each)}
        return {key: _without_nulls(each) for key, each in kept.items()}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
