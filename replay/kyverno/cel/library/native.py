"""Go structs that expressions read: `exceptions` and the accounts of the user library (cel-go `ext/native.go`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replay.cel.declare.library import Function, Library, Messages, Overload, VariableDecl
from replay.cel.value.text import display
from replay.cel.value.types import STRING, list_type, struct_type
from replay.cel.value.values import EvalError, ObjectValue, Value

_EXCEPTION = struct_type("libs.Exception")
_SERVICE_ACCOUNT = struct_type("user.ServiceAccount")
_PREFIX = "system:serviceaccount:"
_FIELDS = {
    _EXCEPTION.name: {"allowedImages": list_type(STRING), "allowedValues": list_type(STRING)},
    _SERVICE_ACCOUNT.name: {"Name": STRING, "Namespace": STRING},
}


class NativeObject(ObjectValue, frozen=True):
    """A struct whose fields are all there; one with the zero value of its type counts as not set."""

    def field(self, name: Value) -> Value:
        """A field that the checker knows."""
        return self.fields[name]

    def part(self, key: Value, *, testing: bool) -> tuple[Value, bool]:
        """A field by a name that is found out while evaluating."""
        if not isinstance(key, str):
            return EvalError("no such overload"), False
        if key not in self.fields:
            return EvalError(f"no such field: {display(key)}"), False
        value = self.fields[key]
        return value, bool(value) or not testing


def exception(images: Sequence[str], values: Sequence[str]) -> NativeObject:
    """The value of `exceptions`: what the exceptions that match allow."""
    return NativeObject(_EXCEPTION.name, {"allowedImages": list(images), "allowedValues": list(values)})


def _service_account(user: str) -> NativeObject:
    namespace = name = ""
    if user.startswith(_PREFIX):
        first, colon, rest = user[len(_PREFIX) :].partition(":")
        if colon:
            namespace, name = first, rest
    return NativeObject(_SERVICE_ACCOUNT.name, {"Name": name, "Namespace": namespace})


def _new(type_name: str, fields: Mapping[str, Value]) -> Value:
    zero: Mapping[str, Value] = {name: "" if type_ is STRING else [] for name, type_ in _FIELDS[type_name].items()}
    return NativeObject(type_name, {**zero, **fields})


def _function(name: str, overload: str) -> Function:
    return Function(name, (Overload(overload, (STRING,), _SERVICE_ACCOUNT, implementation=_service_account),))


NATIVE = Library(
    name="kyverno.native",
    functions=(
        _function("parseServiceAccount", "parse_service_account_string_non_prefixed"),
        _function("user.parseServiceAccount", "parse_service_account_string_prefixed"),
    ),
    variables=(VariableDecl("exceptions", _EXCEPTION),),
    struct_fields=_FIELDS,
    messages=Messages(_FIELDS.__contains__, _new, _FIELDS.__contains__),
)
"""`exceptions`, `parseServiceAccount` and `user.parseServiceAccount`."""
