"""A directory of manifests for one plugin, loaded as the server does at its start.

`k8s.io/apiserver/pkg/admission/plugin/{policy,webhook}/manifest/loader`, with the defaulting and validation that
`k8s.io/kubernetes/pkg/admission/plugin/{policy,webhook}/manifest/loader` adds. The server stops at the first refusal.
Here all refusals are collected, in the server's order.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sized
from difflib import get_close_matches
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from replay.cellib.version import KubernetesVersion
from replay.go.format import aggregate, quote
from replay.json import JSON
from replay.kube.admissionregistration import GROUP, Origin
from replay.manifests.authorization_file import CONFIGURATION_FILE
from replay.manifests.defaulting import set_defaults
from replay.manifests.engine_object import without_engine_objects
from replay.manifests.expression import CheckedExpression
from replay.manifests.finding import SERVER, Finding, ManifestRefusal, Severity
from replay.manifests.go_type.decode import plain
from replay.manifests.go_type.schema import LOADER_SCHEME, Registered
from replay.manifests.plugin import PluginName
from replay.manifests.read.document_reader import DecodedObject, UndecodableError, read_item, read_object
from replay.manifests.read.documents import DirectoryDocuments, read_directory
from replay.manifests.read.json_reader import text_from_bytes
from replay.manifests.read.node import Mapping, Node, Position, position_of
from replay.manifests.read.node import Sequence as NodeSequence
from replay.manifests.static_rule import STATIC_SUFFIX, name_problem, static_problem
from replay.manifests.validation import validate


class LoadedObject(Struct, frozen=True):
    """One object of a set: its JSON after defaulting, its file, and its compiled expressions.

    `text` is its document, which is number `document` in its file. `is_valid` says whether the REST API would accept
    the object by itself.
    """

    kind: str
    name: str
    value: JSON
    path: str
    node: Node
    expressions: tuple[CheckedExpression, ...] = ()
    text: str = ""
    is_valid: bool = True
    document: int = 1

    @property
    def origin(self) -> Origin:
        """Source of the object."""
        path = os.fsencode(self.path).decode("utf-8", "backslashreplace")
        return Origin(path, self.node.position.line, self.document)

    def position(self, field_path: str) -> Position:
        """Return a field's position in the file."""
        return position_of(self.node, field_path)


class LoadedDirectory(Struct, frozen=True):
    """A directory as one plugin loads it: policies, then bindings, each sorted by name, or the reasons for a refusal."""

    plugin: PluginName
    path: str
    hash: str
    objects: tuple[LoadedObject, ...]
    refusals: tuple[ManifestRefusal, ...] = ()

    @property
    def error(self) -> str | None:
        """Text with which the server refuses the directory, or None if it accepts it."""
        return self.refusals[0].text if self.refusals else None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All problems. Those that the server reports have `first`."""
        return tuple(
            replace(finding, first=finding.first and index == 0)
            for index, refusal in enumerate(self.refusals)
            for finding in refusal.findings
        )


NO_SUCH_KIND = (
    f"a set holds policies, bindings and webhook configurations of {GROUP}/v1; keep other objects in another directory"
)
NOT_V1 = f"static manifests are of {GROUP}/v1: write that as `apiVersion`"
NOT_STATIC = "a static manifest needs such a name; what is created through the API stands in the set's `api/`"


def fix_of_kind(untyped: Node) -> str:
    """Return advice for a document of an unknown kind. It names a similar kind of the group, if there is one."""
    fields = plain(untyped)
    version, kind = (str(fields.get(name)) if isinstance(fields, dict) else "" for name in ("apiVersion", "kind"))
    if version.rpartition("/")[0] != GROUP:
        return NO_SUCH_KIND
    kinds = sorted({kind for plugin in PluginName for kind in plugin.kinds})
    near = get_close_matches(kind, kinds, n=1)
    there_are = f"did you mean `{near[0]}`?" if near and near[0] != kind else f"there are {', '.join(kinds)}"
    return NOT_V1 if kind in kinds else there_are


def right_place(registered: Registered) -> str:
    """Return the right place of an object that another plugin accepts."""
    reader = next((plugin for plugin in PluginName if plugin.accepts(registered)), None)
    return f"{reader.value} reads it: keep it in `{reader.directory}/`" if reader is not None else NO_SUCH_KIND


def load_directory(
    path: Path,
    plugin: PluginName,
    version: KubernetesVersion,
    *,
    mixed: bool = False,
    ignored: frozenset[str] = frozenset(),
) -> LoadedDirectory:
    """Load a directory for one plugin. It never raises: all problems are in `refusals`.

    `mixed`: the directory may contain objects of the other plugins, which no server allows. They are left out, and so
    are files about authorization and `ignored` files.
    """
    directory = read_directory(path, ignored | {CONFIGURATION_FILE} if mixed else ignored)
    directory = without_engine_objects(directory) if mixed else directory
    return load_documents(path, directory, plugin, version, mixed=mixed)


def load_documents(
    path: Path, directory: DirectoryDocuments, plugin: PluginName, version: KubernetesVersion, *, mixed: bool
) -> LoadedDirectory:
    """Load the documents of a directory or file. See `load_directory`."""
    loading = _StaticLoading(version, mixed, plugin=plugin)
    loading.load(directory)
    if not plugin.is_webhook:
        loading.check_references()
    objects = sorted(loading.objects, key=lambda loaded: (plugin.kinds.index(loaded.kind), loaded.name))
    return LoadedDirectory(plugin, str(path), directory.hash, tuple(objects), tuple(loading.refusals))


class Loading(Struct):
    """Documents during loading. What is accepted, and how a refusal begins, is up to the way they come to the server."""

    version: KubernetesVersion
    mixed: bool
    objects: list[LoadedObject] = field(default_factory=list)
    refusals: list[ManifestRefusal] = field(default_factory=list)
    text: str = ""
    document: int = 1

    def load(self, directory: DirectoryDocuments) -> None:
        """Accept or refuse all documents, after the files that cannot be read."""
        for unreadable in directory.unreadable:
            position = Position(unreadable.line, 1) if unreadable.line else Position(0, 0)
            self.refuse(unreadable.reason, [server_finding(unreadable.reason, unreadable.path, position)])
        for document in directory.documents:
            self.text, self.document = text_from_bytes(document.data), document.number
            try:
                self.accept(read_object(document.data, document.line, LOADER_SCHEME), document.path)
            except UndecodableError as error:
                self.refuse_undecodable(error, document.path, str(error))

    def accept(self, decoded: DecodedObject, path: str) -> None:
        """Accept or refuse one object, or each object of a list."""
        raise NotImplementedError

    def refusal_text(self, path: str, message: str) -> str:
        """Return the server's text for a refusal."""
        raise NotImplementedError

    def refuse(self, text: str, findings: Iterable[Finding]) -> None:
        """Add a refusal."""
        self.refusals.append(ManifestRefusal(text, tuple(findings)))

    def refuse_undecodable(self, error: UndecodableError, path: str, message: str) -> None:
        """Refuse what is no object of a known kind. The text of the server has the first of the problems."""
        fix = fix_of_kind(error.untyped) if error.untyped is not None else ""
        findings = (
            replace(
                server_finding(problem.message, path, problem.position, problem.path),
                first=index < error.text_count,
                fix=fix,
            )
            for index, problem in enumerate(error.problems)
        )
        self.refuse(self.refusal_text(path, message), findings)

    def accept_items(self, decoded: DecodedObject, path: str, said: str = "") -> None:
        """Accept or refuse the items of a `List` one by one. `said` begins the message of one that is no object."""
        for item in items_of(decoded.node):
            try:
                self.accept(read_item(item, LOADER_SCHEME), path)
            except UndecodableError as error:
                self.refuse_undecodable(error, path, f"{said}{error}")

    def loaded(
        self, value: JSON, node: Node, path: str, errors: Sized, expressions: tuple[CheckedExpression, ...]
    ) -> LoadedObject:
        """Return an object of the document that is being loaded."""
        return LoadedObject(
            kind=value["kind"],
            name=value["metadata"].get("name", ""),
            value=value,
            path=path,
            node=node,
            expressions=expressions,
            text=self.text,
            is_valid=not errors,
            document=self.document,
        )


class _StaticLoading(Loading, kw_only=True):
    """A plugin's directory during loading. `files` has the file of each kind and name."""

    plugin: PluginName
    files: dict[str, dict[str, str]] = field(default_factory=dict)

    def refusal_text(self, path: str, message: str) -> str:
        return f"error loading {path}: {message}"

    def accept(self, decoded: DecodedObject, path: str) -> None:
        """Accept an object, the items of a typed list together, or the items of a `List` one by one."""
        kind = decoded.registered.kind
        if kind == "List":
            self.accept_items(decoded, path, "failed to decode list item: ")
            return
        if not self.plugin.accepts(decoded.registered):
            if self.mixed and any(plugin.accepts(decoded.registered) for plugin in PluginName):
                return
            message = f"unsupported resource type {decoded.registered.shown}"
            position = position_of(decoded.node, "kind")
            fix = NOT_V1 if decoded.registered.package != "v1" else right_place(decoded.registered)
            finding = replace(server_finding(message, path, position, "kind"), fix=fix)
            self.refuse(self.refusal_text(path, message), [finding])
            return
        # All items are defaulted and validated before the name of any is looked at.
        candidates = [self._validated(kind.removesuffix("List"), value, node, path) for value, node in _items(decoded)]
        for loaded in candidates:
            self._check_static(loaded)
            self.objects.append(loaded)

    def _validated(self, kind: str, value: JSON, node: Node, path: str) -> LoadedObject:
        set_defaults(kind, value)
        errors, expressions = validate(kind, value, self.version)
        value = {"kind": kind, "apiVersion": f"{GROUP}/v1", **_without_type(value)}
        loaded = self.loaded(value, node, path, errors, expressions)
        if errors:
            text = self.refusal_text(path, f"{kind} {quote(loaded.name)}: {aggregate(errors)}")
            self.refuse(text, (field_finding(loaded, error.path, str(error)) for error in errors))
        return loaded

    def _check_static(self, loaded: LoadedObject) -> None:
        names = self.files.setdefault(loaded.kind, {})
        # A missing name has been refused already, as a field that is required.
        if loaded.name and (problem := name_problem(loaded.name, loaded.path, names)):
            self._refuse_object(
                loaded, problem, "metadata.name", "" if loaded.name.endswith(STATIC_SUFFIX) else NOT_STATIC
            )
        if refusal := static_problem(loaded.kind, loaded.value, loaded.path):
            self._refuse_object(loaded, *refusal)

    def _refuse_object(self, loaded: LoadedObject, message: str, field_path: str, fix: str = "") -> None:
        text = self.refusal_text(loaded.path, message)
        self.refuse(text, [replace(field_finding(loaded, field_path, message), fix=fix)])

    def check_references(self) -> None:
        """Check that every binding names a policy of its directory, in reading order."""
        policy_kind, binding_kind = self.plugin.kinds
        policies = {loaded.name for loaded in self.objects if loaded.kind == policy_kind}
        for loaded in self.objects:
            policy_name = loaded.value["spec"].get("policyName", "") if loaded.kind == binding_kind else None
            if policy_name is None or policy_name in policies:
                continue
            missing = f"references policy {quote(policy_name)} which does not exist in the manifest directory"
            message = f"binding {quote(loaded.name)} {missing}"
            self.refuse(message, [field_finding(loaded, "spec.policyName", message)])


def _items(decoded: DecodedObject) -> Iterator[tuple[JSON, Node]]:
    """Yield the object, or the items of a typed list. The kinds that items state are ignored."""
    if not decoded.registered.kind.endswith("List"):
        yield decoded.value, decoded.node
        return
    if nodes := items_of(decoded.node):
        yield from zip(decoded.value["items"], nodes, strict=True)


def items_of(node: Node) -> tuple[Node, ...]:
    """Return the items of a list, none if it states none."""
    items = node.get("items") if isinstance(node, Mapping) else None
    return tuple(items.items) if isinstance(items, NodeSequence) else ()


def _without_type(value: JSON) -> JSON:
    return {key: item for key, item in value.items() if key not in ("kind", "apiVersion")}


def server_finding(message: str, path: str, position: Position, field_path: str = "") -> Finding:
    """Return a finding in the words of the server."""
    return Finding(Severity.ERROR, SERVER, message, path, position, field_path, first=True)


def field_finding(loaded: LoadedObject, field_path: str, message: str) -> Finding:
    """Return a finding about a field of an object."""
    position = loaded.position(field_path)
    return replace(server_finding(message, loaded.path, position, field_path), object=f"{loaded.kind}/{loaded.name}")
