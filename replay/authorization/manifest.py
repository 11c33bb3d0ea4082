"""What a set says about authorization: `authorization.yaml` and `rbac/`, or such a file or directory alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson
from msgspec import Struct
from msgspec.structs import replace

from replay.authorization.configuration import AuthorizationConfiguration, ServerFiles
from replay.authorization.flags import (
    CONFIGURATION,
    configuration_of_flags,
    flags_of,
    local_configuration,
    require_flags,
    says_authorization,
    unseen_files,
)
from replay.authorization.start import check_start
from replay.cellib.version import KubernetesVersion
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.rbac.aggregation import aggregated
from replay.kube.rbac.kind import RBAC_GROUP, RBAC_KINDS
from replay.manifests.authorization_file import CONFIGURATION_FILE, RBAC_DIRECTORY, is_configuration, is_rbac
from replay.manifests.bundle import is_bundle, rbac_of_bundle
from replay.manifests.server.flags import ServerFlags
from replay.reconstruct.snapshot import read_snapshot

_KINDS = sorted(kind.kind for kind in RBAC_KINDS)

RBACKey = tuple[str, str, str]
"""Kind, namespace and name."""


class AuthorizationManifests(Struct, frozen=True):
    """The chain and the RBAC objects of one set; None where the set has none of its own.

    `alone` means that RBAC objects were given and no set: they say nothing about the chain. `of_flags`: flags of the server name
    the chain; `unseen` says that they name a file which does not lie with the set.
    """

    path: str = ""
    configuration: AuthorizationConfiguration | None = None
    rbac: tuple[JSON, ...] | None = None
    alone: bool = False
    removed: frozenset[RBACKey] = frozenset()
    """The RBAC objects of the cluster that are taken away."""
    of_flags: bool = False
    unseen: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether the set says nothing about authorization."""
        return self.configuration is None and self.rbac is None

    def with_rbac(
        self, objects: Iterable[JSON] | None, removed: Iterable[JSON], path: Path | None
    ) -> AuthorizationManifests:
        """Return the same with RBAC objects on top, None standing for none, and without those of some objects that are taken away.

        Raises ManifestError for an object that is no RBAC object.
        """
        gone = frozenset(rbac_key(obj) for obj in removed if _group(obj) == RBAC_GROUP and obj.get("kind") in _KINDS)
        if objects is None and not gone:
            return self
        state = {rbac_key(obj): obj for obj in self.rbac or ()}
        for obj in objects or ():
            if problem := _problem(obj):
                raise ManifestError(problem, path=str(path or ""))
            state[rbac_key(obj)] = obj
        return replace(
            self,
            path=self.path or str(path or ""),
            rbac=tuple(state[key] for key in sorted(state) if key not in gone),
            alone=self.configuration is None,
            removed=gone,
        )


NOTHING = AuthorizationManifests()


def load_authorization(path: Path, version: KubernetesVersion) -> AuthorizationManifests:
    """What the set at `path` says: `authorization.yaml` of its own, else what the flags of its server name.

    Raises ManifestError where a server would refuse its flags or the configuration, or `rbac/` holds what is no RBAC object.
    """
    if is_bundle(path):
        return NOTHING.with_rbac(rbac_of_bundle(path) or None, (), path)
    flags = flags_of(path, version) if path.exists() else None
    if flags is not None:
        require_flags(flags, version)
    own = _own(path, version)
    if own.configuration is not None or flags is None or not says_authorization(flags):
        return own
    named = _of_flags(flags, version)
    return replace(named, rbac=own.rbac) if own.rbac is not None else named


def _of_flags(flags: ServerFlags, version: KubernetesVersion) -> AuthorizationManifests:
    """The chain that flags name."""
    if not flags.values.get(CONFIGURATION):
        return AuthorizationManifests(flags.path, configuration_of_flags(flags), of_flags=True)
    local = local_configuration(flags)
    if local is None:
        return AuthorizationManifests(flags.path, of_flags=True, unseen=f"{flags.path}: {next(unseen_files(flags))}")
    return replace(_configured(local, version), of_flags=True)


def as_logged(
    manifests: tuple[AuthorizationManifests, AuthorizationManifests], default: AuthorizationConfiguration
) -> tuple[AuthorizationManifests, AuthorizationManifests]:
    """What of two sets there is to compare: chains that flags name alike, or in a file that nobody gave, are those of the log.

    A candidate without flags has those of the current set.
    """
    current, candidate = manifests
    if current.of_flags and candidate.configuration is None and not candidate.of_flags:
        candidate = replace(candidate, configuration=current.configuration, of_flags=True, unseen=current.unseen)
    sides = (current, candidate)
    if any(each.configuration is not None and not each.of_flags for each in sides):
        return sides
    if any(each.unseen for each in sides):
        return _without_chain(current), _without_chain(candidate)
    is_same = (current.configuration or default) == (candidate.configuration or default)
    if is_same and not any(each.rbac is not None or each.removed for each in sides):
        return _without_chain(current), _without_chain(candidate)
    return sides


def _without_chain(manifests: AuthorizationManifests) -> AuthorizationManifests:
    return replace(manifests, configuration=None)


def _own(path: Path, version: KubernetesVersion) -> AuthorizationManifests:
    """What a set says in files of its own."""
    if not path.is_dir():
        if is_configuration(path):
            return _configured(path, version)
        return AuthorizationManifests(str(path), rbac=read_rbac(path), alone=True) if is_rbac(path) else NOTHING
    manifests = NOTHING
    if (path / CONFIGURATION_FILE).is_file():
        manifests = _configured(path / CONFIGURATION_FILE, version)
    if (path / RBAC_DIRECTORY).is_dir():
        return AuthorizationManifests(str(path), manifests.configuration, read_rbac(path / RBAC_DIRECTORY))
    if manifests.is_empty and is_rbac(path):
        return AuthorizationManifests(str(path), rbac=read_rbac(path), alone=True)
    return manifests


def _configured(path: Path, version: KubernetesVersion) -> AuthorizationManifests:
    """The configuration of a file; that it names files of the server is told by `replay check`, not here."""
    checked = check_start(path.read_bytes(), version, ServerFiles())
    if not checked.is_accepted or checked.configuration is None:
        place = next((problem.position for problem in checked.problems), None)
        first_line = (checked.explained or "").partition("\n")[0]
        raise ManifestError(first_line, path=str(path), line=place.line if place else 0)
    return AuthorizationManifests(str(path), checked.configuration)


def load_rbac(path: Path) -> tuple[str, tuple[JSON, ...]]:
    """The RBAC objects of the set at `path` and where they stand; none where it has none. Raises as `read_rbac`."""
    own = path / RBAC_DIRECTORY
    if own.is_dir():
        return str(own), read_rbac(own)
    if is_bundle(path):
        return str(path), NOTHING.with_rbac(rbac_of_bundle(path), (), path).rbac or ()
    return str(path), read_rbac(path) if is_rbac(path) else ()


def read_rbac(path: Path) -> tuple[JSON, ...]:
    """The RBAC objects of a file or directory, aggregated roles resolved; of those of one name the last counts.

    Raises ManifestError for another kind of object, and SnapshotError for what cannot be read at all.
    """
    if path.is_dir() and not any(file.is_file() for file in path.rglob("*")):
        return ()
    objects: dict[RBACKey, JSON] = {}
    for obj in read_snapshot(path):
        problem = _problem(obj)
        if problem is not None:
            raise ManifestError(problem, path=str(path))
        objects[rbac_key(obj)] = obj
    return tuple(objects[key] for key in sorted(objects))


def rbac_key(obj: JSON) -> RBACKey:
    """The identity of an RBAC object."""
    metadata = obj["metadata"]
    return str(obj["kind"]), str(metadata.get("namespace") or ""), str(metadata["name"])


def _group(obj: JSON) -> str:
    return str(obj.get("apiVersion") or "").rpartition("/")[0]


def _problem(obj: JSON) -> str | None:
    """Why an object is no RBAC object, None if it is one."""
    kind, metadata = obj.get("kind"), obj.get("metadata")
    if _group(obj) != RBAC_GROUP or kind not in _KINDS:
        return f"{kind} of `{obj.get('apiVersion')}` is no RBAC object; {', '.join(_KINDS)} belong here"
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return f"{kind} has no `metadata.name`"
    named = f"{kind} `{metadata['name']}`"
    if kind in ("Role", "RoleBinding") and not metadata.get("namespace"):
        return f"{named} has no `metadata.namespace`"
    if kind.endswith("Binding"):
        ref, subjects = obj.get("roleRef"), obj.get("subjects")
        if not isinstance(ref, dict) or not all(isinstance(ref.get(part), str) for part in ("kind", "name")):
            return f"{named} has no `roleRef` with kind and name"
        return None if _is_list_of(dict, subjects) else f"{named}: `subjects` is no list of objects"
    return _rule_problem(named, obj.get("rules"))


def _rule_problem(named: str, rules: JSON) -> str | None:
    if not _is_list_of(dict, rules):
        return f"{named}: `rules` is no list of objects"
    for index, rule in enumerate(rules or ()):
        for field in ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"):
            if not _is_list_of(str, rule.get(field)):
                return f"{named}: `rules[{index}].{field}` is no list of strings"
    return None


def _is_list_of(type_: type, value: JSON) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(item, type_) for item in value))


def dangling_bindings(objects: Iterable[JSON], other_roles: Iterable[RBACKey] = ()) -> Iterator[str]:
    """Bindings of roles that are neither in `objects` nor `other_roles`: one line each, if any role is known at all."""
    listed = list(objects)
    roles = {rbac_key(obj) for obj in listed if not obj["kind"].endswith("Binding")} | set(other_roles)
    if not roles:
        return
    for obj in listed:
        if not obj["kind"].endswith("Binding"):
            continue
        kind, namespace, name = rbac_key(obj)
        ref = obj["roleRef"]
        if (ref["kind"], namespace if ref["kind"] == "Role" else "", ref["name"]) not in roles:
            place = f"{kind} `{f'{namespace}/' if namespace else ''}{name}`"
            yield f"{place} refers to {ref['kind']} `{ref['name']}`, which is not there"


def laid_over(base: Iterable[JSON], own: Iterable[JSON] | None, deleted: Iterable[RBACKey] = ()) -> list[JSON]:
    """RBAC with the objects of a set in the place of those of the same name, and without what it deletes.

    Aggregated roles are resolved where the set has a part in it.
    """
    state = {rbac_key(obj): obj for obj in base}
    if own is None:
        return list(state.values())
    for key in deleted:
        state.pop(key, None)
    state |= {rbac_key(obj): obj for obj in own}
    cluster_roles = [obj for key, obj in state.items() if key[0] == "ClusterRole"]
    return [*(obj for key, obj in state.items() if key[0] != "ClusterRole"), *aggregated(cluster_roles)]


def deleted_keys(current: AuthorizationManifests, candidate: AuthorizationManifests) -> frozenset[RBACKey]:
    """What the current set's `rbac/` has and the candidate's lacks; nothing where the candidate says nothing about RBAC."""
    if current.rbac is None or candidate.rbac is None:
        return candidate.removed
    return candidate.removed | frozenset(map(rbac_key, current.rbac)) - frozenset(map(rbac_key, candidate.rbac))


def digest(manifests: AuthorizationManifests) -> bytes:
    """Everything that decisions depend on, as bytes to compare."""
    return repr(manifests.configuration).encode() + orjson.dumps([manifests.rbac, sorted(manifests.removed)])
