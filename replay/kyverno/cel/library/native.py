"""Go structs that expressions read: `exceptions` and service accounts of the user library (cel-go `ext/native.go`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replay.cel.declare.library import Function, Library, Messages, VariableDecl, overloaded
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
_GO_NAMES = {
    _EXCEPTION.name: {"AllowedImages": "allowedImages", "AllowedValues": "allowedValues"},
    _SERVICE_ACCOUNT.name: {"Name": "Name", "Namespace": "Namespace"},
}
"""Go names of fields, which expressions use if the checker does not know the type of the struct."""


class NativeObject(ObjectValue, frozen=True):
    """Go struct. `fields` holds only fields whose value is not the zero value, because a zero field counts as not set."""

    def field(self, name: Value) -> Value:
        """Return a field that the checker knows."""
        zero: Value = "" if _FIELDS[self.type_name][name] is STRING else []
        return self.fields.get(name, zero)

    def part(self, key: Value, *, testing: bool) -> tuple[Value, bool]:
        """Return a field whose struct is known only at evaluation, and whether it counts as present."""
        if not isinstance(key, str):
            return EvalError("no such overload"), False
        name = _GO_NAMES[self.type_name].get(key)
        if name is None:
            return EvalError(f"no such field: {display(key)}"), False
        return self.field(name), name in self.fields or not testing


def _native(type_name: str, fields: Mapping[str, Value]) -> NativeObject:
    return NativeObject(type_name, {name: value for name, value in fields.items() if value})


def exception(images: Sequence[str], values: Sequence[str]) -> NativeObject:
    """Return the value of `exceptions`: the images and values that the matching exceptions allow."""
    return NativeObject(_EXCEPTION.name, {"allowedImages": list(images), "allowedValues": list(values)})


def _service_account(user: str) -> NativeObject:
    namespace = name = ""
    if user.startswith(_PREFIX):
        first, colon, rest = user[len(_PREFIX) :].partition(":")
        if colon:
            namespace, name = first, rest
    return _native(_SERVICE_ACCOUNT.name, {"Name": name, "Namespace": namespace})


def _function(name: str, overload: str) -> Function:
    return overloaded(name, (overload, (STRING,), _SERVICE_ACCOUNT, _service_account))


NATIVE = Library(
    name="kyverno.native",
    functions=(
        _function("parseServiceAccount", "parse_service_account_string_non_prefixed"),
        _function("user.parseServiceAccount", "parse_service_account_string_prefixed"),
    ),
    variables=(VariableDecl("exceptions", _EXCEPTION),),
    struct_fields=_FIELDS,
    types=(_EXCEPTION, _SERVICE_ACCOUNT),
    messages=Messages(_FIELDS.__contains__, _native, _FIELDS.__contains__),
)
"""Library of `exceptions`, `parseServiceAccount` and `user.parseServiceAccount`."""
