"""Builtins for YAML (`opa/v1/topdown/encoding.go`; `sigs.k8s.io/yaml`)."""

from __future__ import annotations

from replay.gatekeeper.rego.builtins.operand import BuiltinError, builtin, plain, wrong
from replay.gatekeeper.rego.value import Value, number_of
from replay.manifests.read.node import Mapping, Node, Number, Scalar, Sequence
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml


def decoded_yaml(text: str) -> Value:
    """Return the value of a YAML text. Raises BuiltinError."""
    try:
        document = read_yaml(text.encode("utf-8", "surrogateescape"))
    except (YAMLSyntaxError, RecursionError):
        raise BuiltinError from None
    return _value(document.node)


def _value(node: Node) -> Value:
    match node:
        case Scalar():
            return number_of(node.value.text) if isinstance(node.value, Number) else node.value
        case Sequence():
            return [_value(item) for item in node.items]
        case Mapping():
            return {entry.key: _value(entry.value) for entry in node.entries}


@builtin("yaml.unmarshal", "s")
def _unmarshal(text: str) -> Value:
    return decoded_yaml(text)


@plain("yaml.is_valid", 1)
def _is_valid(text: Value) -> Value:
    if type(text) is not str:
        wrong(text)
        return False
    try:
        decoded_yaml(text)
    except BuiltinError:
        return False
    return True
