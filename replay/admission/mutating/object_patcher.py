"""One mutation of an object, with the server's steps after it.

A built-in object is converted to its Go type and defaulted after each mutation. A custom object gets the defaults of
its schema (apiserver `policy/mutating/dispatcher.go`, `dispatchOne`).
"""

from __future__ import annotations

from typing import Any

from replay.admission.mutating.mutation_value import MutationError
from replay.go.format import quote
from replay.json import JSON
from replay.kube import json_patch
from replay.kube.default import set_custom_defaults, set_defaults
from replay.kube.go_object import DecodeError, round_trip
from replay.kube.gvk import GroupVersionKind
from replay.kube.json_patch import JSONPatchError, TestFailed
from replay.kube.lister import Lister
from replay.kube.merge import structured_merge
from replay.kube.merge.atom import Atoms
from replay.kube.merge.merge_key import MergeError
from replay.kube.schema import Schema, Schemas

_TYPE_META = (
    'Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)


class StatusError(Exception):
    """The server ends the request at once, whatever the `failurePolicy`."""

    def __init__(self, message: str, reason: str, code: int) -> None:
        """`message` is the whole message of the response."""
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.code = code


def internal_error(cause: str) -> StatusError:
    """Return an internal error (`apierrors.NewInternalError`)."""
    return StatusError(f"Internal error occurred: {cause}", "InternalError", 500)


def with_json_patch(value: JSON, operations: list[dict[str, Any]]) -> JSON:
    """Return a value after a policy's JSON patch. The same value if a `test` fails. Raise `MutationError`."""
    try:
        return json_patch.apply(value, operations, explicit_null=True)
    except TestFailed:
        return value
    except JSONPatchError as error:
        raise MutationError(f"JSON Patch: {error}") from None


def check_object(value: JSON) -> None:
    """Raise `StatusError` for a value that is not an object."""
    if not isinstance(value, dict):
        raise internal_error(
            # The text is that of `json.SimpleMetaFactory.Interpret`, which decodes into an anonymous struct.
            f"couldn't get version/kind; json parse error: json: cannot unmarshal array into {_TYPE_META}"
        )


class ObjectPatcher:
    """Mutates objects of one kind. Nothing is changed in place, and unchanged parts are shared."""

    def __init__(
        self, kind: GroupVersionKind, schema: Schema | None, atoms: Atoms, *, custom: bool, mergeable: bool = True
    ) -> None:
        """`schema` is None for the built-in kinds that are never stored, such as PodExecOptions.

        `mergeable` says that the type converter knows the kind. It reads the OpenAPI document of the kind's own group
        version (apiserver `policy/mutating/patch/typeconverter.go`).
        """
        self._kind = kind
        self._api_version = kind.api_version
        self._schema = schema
        self._atoms = atoms
        self._custom = custom
        self._merge_schema = schema if mergeable else None

    def settle(self, value: JSON, old: JSON = None, *, lenient: bool = False) -> JSON:
        """Return the object as the server holds it after decoding and defaulting. Raise `DecodeError`.

        `lenient` allows integers as doubles, for values that were never JSON.
        """
        if self._schema is None:
            return value
        if self._custom:
            return set_custom_defaults(self._schema, value)
        settled = round_trip(self._schema, value, old, lenient=lenient)
        set_defaults(self._schema, settled, old)
        return settled

    def apply_configuration(self, value: JSON, configuration: dict[str, Any]) -> JSON:
        """Return the object with an apply configuration merged in and settled. Raise `MutationError`."""
        try:
            return self.settle(self.merge(value, configuration), value, lenient=True)
        except DecodeError as error:
            raise MutationError(f"unable to convert unstructured object to {self._shown_kind}: {error}") from None

    def merge(self, value: JSON, configuration: dict[str, Any], *, replaces_atomics: bool = False) -> JSON:
        """Return the object with an apply configuration merged in, before the server settles it.

        Raise `MutationError`.
        """
        patch = {**configuration, "apiVersion": self._api_version, "kind": self._kind.kind}
        if self._merge_schema is None:
            text = f"failed to convert patch object to typed object: no corresponding type for {self._shown_kind}"
            raise MutationError(f"error applying patch: {text}")
        atom = self._atoms.atom_for(self._merge_schema)
        try:
            return structured_merge.apply_configuration(atom, value, patch, replaces_atomics=replaces_atomics)
        except MergeError as error:
            raise MutationError(f"error applying patch: {error}") from None

    @property
    def _shown_kind(self) -> str:
        return f"{self._kind.group}/{self._kind.version}, Kind={self._kind.kind}"

    def json_patch(self, value: JSON, operations: list[dict[str, Any]]) -> JSON:
        """Return the object after a policy's JSON patch; unchanged if a `test` fails.

        Raise `MutationError`, and `StatusError` if the result is no object of the kind.
        """
        changed = with_json_patch(value, operations)
        return value if changed is value else self.decode(changed, value, strict=True)

    def decode(self, obj: JSON, old: JSON, *, strict: bool) -> JSON:
        """Return a patched object as the server decodes it. Raise `StatusError`."""
        check_object(obj)
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
        if (api_version or self._api_version, kind or self._kind.kind) != (self._api_version, self._kind.kind):
            raise internal_error(f'no kind "{kind}" is registered for version "{api_version}"')
        # The decoder supplies both if the patch removed them.
        obj = {**obj, "apiVersion": self._api_version, "kind": self._kind.kind}
        if self._schema is None or self._custom:
            return self.settle(obj)
        unknown: list[str] = []
        try:
            settled = round_trip(self._schema, obj, old, unknown)
        except DecodeError as error:
            raise internal_error(str(error)) from None
        # Patches of policies are decoded strictly, those of webhooks are not.
        if unknown and strict:
            fields = ", ".join(f"unknown field {quote(path)}" for path in unknown)
            raise internal_error(f"strict decoding error: {fields}")
        set_defaults(self._schema, settled, old)
        return settled


class ObjectPatchers:
    """The patchers of all kinds, each created once."""

    def __init__(self, schemas: Schemas) -> None:
        """`schemas` are those of the cluster."""
        self._schemas = schemas
        self._builtin: dict[GroupVersionKind, ObjectPatcher | None] = {}
        self._atoms = Atoms()
        self._patchers: dict[tuple[GroupVersionKind, Schema | None], ObjectPatcher | None] = {}

    def patcher_for(self, kind: GroupVersionKind, lister: Lister | None = None) -> ObjectPatcher | None:
        """Return the patcher of a kind, None if its schema is unknown.

        `lister` shows the definition of a custom kind.
        """
        # Definitions change only for custom kinds, so that built-in kinds need no lister.
        if kind in self._builtin:
            return self._builtin[kind]
        custom = self._schemas.is_custom(kind)
        schemas = self._schemas.seen_by(lister) if custom and lister is not None else self._schemas
        schema = schemas.for_kind(kind)
        if (kind, schema) not in self._patchers:
            is_known = schema is not None or self._schemas.serves(kind.group, kind.version)
            mergeable = not self._schemas.is_foreign(kind)
            self._patchers[kind, schema] = (
                ObjectPatcher(kind, schema, self._atoms, custom=custom, mergeable=mergeable) if is_known else None
            )
        if not custom:
            self._builtin[kind] = self._patchers[kind, schema]
        return self._patchers[kind, schema]
