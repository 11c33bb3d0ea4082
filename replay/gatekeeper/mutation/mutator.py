"""Mutators of all four kinds, and their refusals (`gatekeeper/pkg/mutation/mutators`)."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from replay.gatekeeper.constraint import Match, Matchable, MatchError, NotKnownError, match_of
from replay.gatekeeper.mutation.location import (
    MUST_NOT_EXIST,
    FieldNode,
    ListNode,
    Location,
    Node,
    PathTests,
    parse_location,
    path_tests,
)
from replay.gatekeeper.mutation.walk import LocationWalk, MutationError, Setter, go_type
from replay.gatekeeper.template import RefusedError
from replay.go.format import quote
from replay.json import JSON
from replay.kube.engine_policy import group_of
from replay.kube.json_patch import diff

# Schemas that mutators imply, and conflicts between them (`gatekeeper/pkg/mutation/schema`).

_UNKNOWN, _SET, _STRING = "Unknown", "Set", "String"
_LIST, _OBJECT = "List", "Object"

_Binding = tuple[str, str, str, str]
"""Group, version, kind and operation."""


class _SchemaNode:
    """Node of the implied schema."""

    def __init__(self) -> None:
        self.referenced: set[str] = set()
        self.children: dict[str, dict[str, _SchemaNode]] = {}
        self.terminating: set[str] = set()

    def add(self, name: str, path: Sequence[Node], terminal: str, *, terminates: bool) -> set[str]:
        """Add a path. Return the mutators that conflict on it."""
        self.referenced.add(name)
        if not path:
            if terminates:
                self.terminating.add(name)
            return set()
        node = path[0]
        key = node.name if isinstance(node, FieldNode) else node.key
        kind = (_OBJECT if isinstance(path[1], FieldNode) else _LIST) if len(path) > 1 else terminal
        child = self.children.setdefault(key, {}).setdefault(kind, _SchemaNode())
        return child.add(name, path[1:], terminal, terminates=terminates) | self._conflicts(key)

    def _conflicts(self, key: str) -> set[str]:
        children = self.children[key]
        known = len(children) - (_UNKNOWN in children)
        found: set[str] = set()
        for kind, child in children.items():
            if kind != _UNKNOWN and (known > 1 or (kind == _LIST and len(child.children) > 1)):
                found |= child.referenced
        if not any(child.terminating for child in children.values()) or not any(
            child.children for child in children.values()
        ):
            return found
        for child in children.values():
            found |= child.terminating
            for below in child.children.values():
                for grandchild in below.values():
                    found |= grandchild.referenced
        return found


class _ImpliedSchemas:
    """Implied schemas of all kinds. Mutators are added one by one."""

    def __init__(self) -> None:
        """Start without mutators."""
        self._schemas: dict[_Binding, _SchemaNode] = {}
        self.conflicting: set[str] = set()

    def add(
        self, name: str, bindings: Sequence[_Binding], location: Location, terminal: str, *, terminates: bool
    ) -> set[str]:
        """Add a mutator. Return the mutators that now conflict, which are no longer applied."""
        found: set[str] = set()
        for binding in bindings:
            found |= self._schemas.setdefault(binding, _SchemaNode()).add(
                name, location, terminal, terminates=terminates
            )
        self.conflicting |= found
        return found


GROUP = "mutations.gatekeeper.sh"
OPERATIONS = ("CREATE", "UPDATE")
_METADATA = FieldNode("metadata")


class ApplyTo(Struct, frozen=True):
    """Kinds and operations that a mutator applies to."""

    groups: tuple[str, ...]
    versions: tuple[str, ...]
    kinds: tuple[str, ...]
    operations: tuple[str, ...]

    def applies(self, value: Mapping[str, JSON], operation: str) -> bool:
        """Return whether it applies to an object. An empty operation stands for CREATE and UPDATE."""
        version = str(value.get("apiVersion") or "").rpartition("/")[2]
        if group_of(value) not in self.groups or version not in self.versions or value.get("kind") not in self.kinds:
            return False
        if not self.operations or "*" in self.operations:
            return True
        return operation in self.operations if operation else all(each in self.operations for each in OPERATIONS)


class _Mutator(Struct, frozen=True):
    """Mutator with its match criteria, location and change."""

    kind: str
    name: str
    match: Match
    applies: tuple[ApplyTo, ...] | None
    location: Location
    tests: PathTests
    parameters: JSON
    terminal: str = _UNKNOWN
    terminates: bool = False

    @property
    def key(self) -> str:
        """Name as it appears in Gatekeeper's errors."""
        return f"{self.kind}.{GROUP} /{self.name}"

    @property
    def policy(self) -> str:
        """Kind and name as they appear in reports."""
        return f"{self.kind}/{self.name}"

    @property
    def bindings(self) -> tuple[_Binding, ...]:
        """Kinds and operations whose schema it implies. There are none for AssignMetadata."""
        return tuple(
            dict.fromkeys(
                (group, version, kind, operation)
                for each in self.applies or ()
                for group in each.groups
                for version in each.versions
                for kind in each.kinds
                for operation in OPERATIONS
                if not each.operations or "*" in each.operations or operation in each.operations
            )
        )

    def matches(self, target: Matchable, operation: str) -> bool:
        """Return whether it matches an object."""
        if self.applies is not None and not any(each.applies(target.object, operation) for each in self.applies):
            return False
        return self.match.matches(target)

    def mutate(self, value: dict[str, JSON]) -> bool:
        """Change an object in place. Return whether anything was set."""
        set_field, element = self._setter(value)
        return LocationWalk(self.location, self.tests, set_field, element).mutate(value)

    def _setter(self, value: dict[str, JSON]) -> tuple[Setter, Any]:
        if self.kind == "ModifySet":
            return self._modify_set, None
        if self.kind == "AssignImage":
            return self._assign_image, None
        assign = self.parameters["assign"]
        if assign.get("externalData") is not None:
            raise NotKnownError("the answer of an external data provider is not known")
        if (field := (assign.get("fromMetadata") or {}).get("field")) is not None:
            found = (value.get("metadata") or {}).get(field)
            new: JSON = found if isinstance(found, str) else ""
        else:
            new = assign["value"]

        def set_field(target: dict[str, JSON], name: str) -> None:
            target[name] = copy.deepcopy(new)

        def element() -> JSON:
            if not isinstance(new, dict):
                raise MutationError(f"assign.value for keyed list is not an object: {new}")
            return copy.deepcopy(new)

        return set_field, element

    def _modify_set(self, target: dict[str, JSON], name: str) -> None:
        values: list[JSON] = (self.parameters.get("values") or {}).get("fromList") or []
        operation = self.parameters.get("operation") or "merge"
        if operation not in ("merge", "prune"):
            raise MutationError(f"unrecognized operation for modifyset: {operation}")
        if name not in target:
            if operation == "merge":
                target[name] = copy.deepcopy(values)
            return
        known = target[name]
        if not isinstance(known, list):
            raise MutationError(f"{_plain(known)} is not a list of values, cannot treat it as a set")
        if operation == "merge":
            merged = list(known)
            for item in values:
                if not any(_same(item, each) for each in merged):
                    merged.append(copy.deepcopy(item))
            target[name] = merged
        else:
            target[name] = [each for each in known if not any(_same(item, each) for item in values)]

    def _assign_image(self, target: dict[str, JSON], name: str) -> None:
        known = target.get(name, "")
        if not isinstance(known, str):
            raise MutationError(
                f"expected value at AssignImage location to be a string, got {_plain(known)} of type {go_type(known)}"
            )
        domain, rest = _split_domain(known)
        path, tag = _split_tag(rest)
        domain = self.parameters.get("assignDomain") or domain
        target[name] = (
            (f"{domain}/" if domain else "")
            + (self.parameters.get("assignPath") or path)
            + (self.parameters.get("assignTag") or tag)
        )


def _same(one: JSON, other: JSON) -> bool:
    return type(one) is type(other) and bool(one == other)


def _plain(value: JSON) -> str:
    """Return a value as `%v` prints it."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_plain(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_plain, value)) + "]"
    return (
        {None: "<nil>", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)
    )


def mutator_of(value: JSON) -> _Mutator:
    """Return a mutator. Raises RefusedError."""
    kind, name = str(value.get("kind") or ""), str((value.get("metadata") or {}).get("name") or "")
    spec = value.get("spec") or {}
    parameters = spec.get("parameters") or {}
    if len(name) > 63:
        raise RefusedError("maximum name length is 63 characters")
    location = _location(kind, name, str(spec.get("location") or ""))
    match = match_of(spec.get("match"))
    if kind == "AssignMetadata":
        _check_metadata(name, location, str(spec.get("location") or ""), parameters)
        return _Mutator(
            kind, name, match, None, location, path_tests(location, [(location, MUST_NOT_EXIST)]), parameters
        )
    if location[:1] == (_METADATA,):
        raise RefusedError(f"{'assignImage' if kind == 'AssignImage' else kind.lower()} {name} can't change metadata")
    if kind == "ModifySet":
        if location and isinstance(location[-1], ListNode):
            raise RefusedError("final node in a modifyset location cannot be a keyed list")
    elif kind == "AssignImage":
        if location and isinstance(location[-1], ListNode):
            raise RefusedError(f"assignImage {name} cannot mutate list-type fields")
        _check_key(location)
        try:
            _check_image(parameters)
        except RefusedError as error:
            raise RefusedError(f"assignImage {name} has invalid parameters: {error}") from None
    else:
        _check_key(location)
        _check_assign(parameters.get("assign"))
        _check_list_value(location, parameters["assign"])
    tests = []
    for test in parameters.get("pathTests") or ():
        try:
            path = parse_location(str(test.get("subPath") or ""))
        except RefusedError as error:
            raise RefusedError(
                f"problem parsing sub path `{test.get('subPath') or ''}` for {kind} {name}: {error}"
            ) from None
        tests.append((path, str(test.get("condition") or "")))
    checked = path_tests(location, tests)
    applies = _applies(kind, name, spec.get("applyTo") or ())
    terminal = {"ModifySet": _SET, "AssignImage": _STRING}.get(kind, _UNKNOWN)
    terminates = kind == "AssignImage" or (kind == "Assign" and parameters["assign"].get("externalData") is not None)
    return _Mutator(kind, name, match, applies, location, checked, parameters, terminal, terminates)


def _location(kind: str, name: str, text: str) -> Location:
    try:
        return parse_location(text)
    except RefusedError as error:
        if kind == "AssignMetadata":
            raise RefusedError(f"invalid location format for AssignMetadata {name}: {text}: {error}") from None
        shown = "assignImage" if kind == "AssignImage" else kind
        raise RefusedError(f"invalid location format `{text}` for {shown} {name}: {error}") from None


def _check_metadata(name: str, location: Location, text: str, parameters: Mapping[str, JSON]) -> None:
    allowed = (FieldNode("labels"), FieldNode("annotations"))
    if (
        len(location) != 3
        or location[0] != _METADATA
        or location[1] not in allowed
        or not isinstance(location[2], FieldNode)
    ):
        raise RefusedError(f"invalid location for assignmetadata {name}: {text}")
    assign = parameters.get("assign")
    _check_assign(assign)
    assert isinstance(assign, dict)
    external = assign.get("externalData")
    if external is not None and external.get("dataSource") != "Username":
        raise RefusedError(f"only username data source is supported for assignmetadata {name}")
    if "value" in assign and assign["value"] is not None and not isinstance(assign["value"], str):
        raise RefusedError(f'spec.parameters.assign.value field must be a string for AssignMetadata "{name}"')


def _check_assign(assign: JSON) -> None:
    """Raise RefusedError if an assignment is invalid (`AssignField.Validate`)."""
    given = [
        key
        for key in ("value", "fromMetadata", "externalData")
        if isinstance(assign, dict) and assign.get(key) is not None
    ]
    if not given:
        raise RefusedError("assign must set one of `externalData`, `value` or `fromMetadata`: invalid assign field")
    if len(given) > 1:
        raise RefusedError(
            "assign must only set one of `externalData`, `value` or `fromMetadata`: invalid assign field"
        )
    if given == ["fromMetadata"] and (field := assign["fromMetadata"].get("field") or "") not in ("namespace", "name"):
        raise RefusedError(f"field {field} is not recognized: invalid fromMetadata field")
    if given == ["externalData"]:
        external = assign["externalData"]
        if external.get("failurePolicy") == "UseDefault" and not external.get("default"):
            raise RefusedError("`default` must not be empty when `failurePolicy` is set to `UseDefault`")


def _check_key(location: Location) -> None:
    """Raise RefusedError if a mutator changes the key of a list element (`CheckKeyNotChanged`)."""
    if not location:
        raise RefusedError("empty path")
    if len(location) < 2 or not isinstance(before := location[-2], ListNode):
        return
    last = location[-1]
    if not isinstance(last, FieldNode):
        raise RefusedError("invalid path format: child of a list can't be a list")
    if last.name == before.key:
        raise RefusedError("invalid path format: changing the item key is not allowed")


def _check_list_value(location: Location, assign: Mapping[str, JSON]) -> None:
    last = location[-1]
    if not isinstance(last, ListNode):
        return
    value = assign.get("value")
    if value is not None:
        if last.value is None:
            raise RefusedError("can't append to a globbed list")
        if not isinstance(value, dict):
            raise RefusedError(f"invalid value: `{_plain(value)}`, only objects can be added to keyed lists")
        # A number in the value is a float for Gatekeeper, one in the location an integer: they always differ.
        if isinstance(last.value, int) or not _same(last.value, value.get(last.key)):
            raise RefusedError(
                f"adding object to list with different key {last.key}: list key {last.value}, object key {_plain(value.get(last.key))}"
            )
    if assign.get("fromMetadata") is not None:
        raise RefusedError("cannot assign a metadata field to a list")
    if assign.get("externalData") is not None:
        raise RefusedError("cannot assign external data response to a list")


def _applies(kind: str, name: str, given: Sequence[JSON]) -> tuple[ApplyTo, ...]:
    for each in given:
        if not (each.get("groups") and each.get("versions") and each.get("kinds")):
            raise RefusedError(
                f"invalid applyTo for {kind} mutator {name}, all of group, version and kind must be specified"
            )
    errors: list[str] = []
    for place, each in enumerate(given):
        operations = list(each.get("operations") or ())
        for number, operation in enumerate(operations):
            if operation in operations[:number]:
                errors.append(f'duplicate operation "{operation}" in applyTo[{place}].operations')
            if operation not in (*OPERATIONS, "*"):
                errors.append(
                    f'invalid operation "{operation}" in applyTo[{place}].operations: must be one of CREATE, UPDATE, *'
                )
        if "*" in operations and len(operations) > 1:
            errors.append(f'wildcard "*" in applyTo[{place}].operations must not be combined with other operations')
    if errors:
        raise RefusedError(f"invalid applyTo for {kind} mutator {name}: {'; '.join(errors)}")
    if not given:
        raise RefusedError(f"applyTo required for {kind} mutator {name}")
    return tuple(
        ApplyTo(
            tuple(each["groups"]), tuple(each["versions"]), tuple(each["kinds"]), tuple(each.get("operations") or ())
        )
        for each in given
    )


_DOMAIN = re.compile(r"(?:^\w[\w\-_]*\.[\w\-_\.]*[\w](?::\d+)?$)|(?:^localhost(?::\d+)?$)", re.ASCII)
_TAG = re.compile(
    r"(?:^:[\w][\w.-]{0,127}$)|(?:^@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}$)", re.ASCII
)


def _check_image(parameters: Mapping[str, JSON]) -> None:
    domain, path, tag = (str(parameters.get(key) or "") for key in ("assignDomain", "assignPath", "assignTag"))
    if not (domain or path or tag):
        raise RefusedError("at least one of [assignDomain, assignPath, assignTag] must be set")
    # Python's `$` also matches before a final line feed, Go's does not.
    if domain and (not _DOMAIN.search(domain) or domain.endswith("\n")):
        raise RefusedError(f"assignDomain {quote(domain)} must be a fully-qualified domain name or localhost")
    if path and not _is_path(path):
        raise RefusedError(f"assignPath {quote(path)} must be a valid docker image path")
    if tag and (not _TAG.search(tag) or tag.endswith("\n")):
        raise RefusedError(
            f"assignTag {quote(tag)} must be a valid docker image tag or digest starting with ':' or '@'"
        )
    if not domain and _split_domain(path)[0]:
        raise RefusedError(
            f"assignDomain must be set if the first part of assignPath {quote(path)} can be interpretted as part of a domain"
        )


def _is_path(path: str) -> bool:
    """Return whether a text is an image path: parts of letters and digits with separators between them.

    The expression avoids backtracking.
    """
    return re.fullmatch(r"[a-z0-9]+(?:(?:[._/]|__|-+)[a-z0-9]+)*", path, re.ASCII) is not None


def _split_domain(name: str) -> tuple[str, str]:
    head, slash, rest = name.partition("/")
    if not slash or (not any(character in ".:" for character in head) and head != "localhost"):
        return "", name
    return head, rest


def _split_tag(rest: str) -> tuple[str, str]:
    found = re.search("[:@]", rest)
    return (rest[: found.start()], rest[found.start() :]) if found else (rest, "")


# All mutators of a set, applied until nothing changes (`gatekeeper/pkg/mutation/system.go`).

NO_UUID = "00000000-0000-0000-0000-000000000000"
"""Placeholder for the random identifier in the errors of a mutation."""


class MutationSystem:
    """Mutators, ordered by kind and name."""

    def __init__(self) -> None:
        """Start without mutators."""
        self._mutators: dict[tuple[str, str], _Mutator] = {}
        self._schemas = _ImpliedSchemas()
        self._ordered: list[_Mutator] = []

    def add(self, mutator: _Mutator) -> None:
        """Add a mutator. Raises RefusedError if it conflicts with others. Then none of these is applied."""
        self._mutators[mutator.kind, mutator.name] = mutator
        self._ordered = [self._mutators[key] for key in sorted(self._mutators)]
        found = self._schemas.add(
            mutator.key, mutator.bindings, mutator.location, mutator.terminal, terminates=mutator.terminates
        )
        if found:
            raise RefusedError(f"the following mutators have conflicting schemas: [{','.join(sorted(found))}]")

    @property
    def mutators(self) -> tuple[_Mutator, ...]:
        """Mutators that are applied, in order."""
        return tuple(each for each in self._ordered if each.key not in self._schemas.conflicting)

    def mutate(
        self, value: dict[str, JSON], namespace: JSON, source: str, operation: str
    ) -> tuple[dict[str, JSON], dict[str, list[JSON]]]:
        """Return the object after all mutators, and each mutator's changes. Raises MutationError and NotKnownError."""
        mutators = self.mutators
        patches: dict[str, list[JSON]] = {}
        current = copy.deepcopy(value)
        # Each round applies every mutator once. As in Gatekeeper, there is one round more than mutators.
        for _ in range(len(self._ordered) + 1):
            before = copy.deepcopy(current)
            applied = False
            for mutator in mutators:
                try:
                    if not mutator.matches(Matchable(current, namespace, source), operation):
                        continue
                except MatchError as error:
                    raise MutationError(
                        f"matching for mutator {mutator.key} failed for {_described(current)}: failed to run Match criteria: {error}"
                    ) from None
                try:
                    own = copy.deepcopy(current)
                    if mutator.mutate(current):
                        applied = True
                        if own != current:
                            patches.setdefault(mutator.policy, []).extend(diff(own, current))
                except MutationError as error:
                    raise MutationError(
                        f"mutation {NO_UUID} for mutator {mutator.key} failed for {_described(current)}: {error}"
                    ) from None
            if not applied or current == before:
                return current, patches
        raise MutationError(f"mutation not converging: mutation {NO_UUID} not converging for {_described(current)}")


def _described(value: dict[str, JSON]) -> str:
    metadata = value.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    return f"{group_of(value)} {value.get('kind') or ''} {metadata.get('namespace') or ''} {name}"
