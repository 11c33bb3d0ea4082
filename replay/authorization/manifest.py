"""The authorization of a set: `authorization.yaml` and `rbac/`, or such a file or directory alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson
from msgspec import Struct
from msgspec.structs import replace

from replay.authorization.configuration import AuthorizationConfiguration, ServerFiles
from replay.authorization.start import (
    CONFIGURATION,
    check_start,
    configuration_of_flags,
    flags_of,
    has_authorization_flags,
    local_configuration,
    require_flags,
    unseen_files,
)
from replay.cellib.version import KubernetesVersion
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.rbac import RBAC_GROUP, RBAC_KINDS, aggregated
from replay.manifests.authorization_file import CONFIGURATION_FILE, RBAC_DIRECTORY, is_configuration, is_rbac
from replay.manifests.bundle import is_bundle, rbac_of_bundle
from replay.manifests.server.flags import ServerFlags
from replay.reconstruct.snapshot import read_snapshot

_KINDS = sorted(kind.kind for kind in RBAC_KINDS)

RBACKey = tuple[str, str, str]
"""Kind, namespace and name."""


class AuthorizationManifests(Struct, frozen=True):
    """The chain and the RBAC objects of one set. A field is None if the set does not have it.

    `alone` means that RBAC objects were given without a set, so they do not change the chain. `of_flags` means that
    server flags name the chain. `unseen` says that the flags name a file which is not beside the set.
    """

    path: str = ""
    configuration: AuthorizationConfiguration | None = None
    rbac: tuple[JSON, ...] | None = None
    alone: bool = False
    removed: frozenset[RBACKey] = frozenset()
    """Keys of the cluster's RBAC objects that are deleted."""
    of_flags: bool = False
    unseen: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether the set has neither a chain nor RBAC objects."""
        return self.configuration is None and self.rbac is None

    def with_rbac(
        self, objects: Iterable[JSON] | None, removed: Iterable[JSON], path: Path | None
    ) -> AuthorizationManifests:
        """Return the manifests with more RBAC objects, and without the `removed` ones. `objects` None adds none.

        Raises ManifestError for an object that is not an RBAC object.
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
    """Return the authorization of the set at `path`: its `authorization.yaml`, or else the server flags.

    Raises ManifestError if a server would refuse the flags or the configuration, or if `rbac/` has an object that is
    not an RBAC object.
    """
    if is_bundle(path):
        return NOTHING.with_rbac(rbac_of_bundle(path) or None, (), path)
    flags = flags_of(path, version) if path.exists() else None
    if flags is not None:
        require_flags(flags, version)
    own = _authorization_of_files(path, version)
    if own.configuration is not None or flags is None or not has_authorization_flags(flags):
        return own
    named = _chain_from_flags(flags, version)
    return replace(named, rbac=own.rbac) if own.rbac is not None else named


def _chain_from_flags(flags: ServerFlags, version: KubernetesVersion) -> AuthorizationManifests:
    """Return the chain that flags name."""
    if not flags.values.get(CONFIGURATION):
        return AuthorizationManifests(flags.path, configuration_of_flags(flags), of_flags=True)
    local = local_configuration(flags)
    if local is None:
        return AuthorizationManifests(flags.path, of_flags=True, unseen=f"{flags.path}: {next(unseen_files(flags))}")
    return replace(_configured(local, version), of_flags=True)


def comparable_manifests(
    manifests: tuple[AuthorizationManifests, AuthorizationManifests], default: AuthorizationConfiguration
) -> tuple[AuthorizationManifests, AuthorizationManifests]:
    """Return the parts of two sets that can be compared.

    If flags name the same chain for both, or a file that was not given, the chains are those of the log. A candidate
    without flags has the flags of the baseline.
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


def _authorization_of_files(path: Path, version: KubernetesVersion) -> AuthorizationManifests:
    """Return the authorization in the files of a set, without flags."""
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
    """Return the configuration of a file. Raises ManifestError if a server would refuse it.

    `replay check` warns about files of the server that the configuration names. This function does not.
    """
    checked = check_start(path.read_bytes(), version, ServerFiles())
    if not checked.is_accepted or checked.configuration is None:
        place = next((problem.position for problem in checked.problems), None)
        first_line = (checked.explained or "").partition("\n")[0]
        raise ManifestError(first_line, path=str(path), line=place.line if place else 0)
    return AuthorizationManifests(str(path), checked.configuration)


def load_rbac(path: Path) -> tuple[str, tuple[JSON, ...]]:
    """Return the RBAC objects of the set at `path`, and their place. Raises the errors of `read_rbac`."""
    own = path / RBAC_DIRECTORY
    if own.is_dir():
        return str(own), read_rbac(own)
    if is_bundle(path):
        return str(path), NOTHING.with_rbac(rbac_of_bundle(path), (), path).rbac or ()
    return str(path), read_rbac(path) if is_rbac(path) else ()


def read_rbac(path: Path) -> tuple[JSON, ...]:
    """Return the RBAC objects of a file or directory, with aggregated roles resolved.

    Of several objects with one name, the last counts. Raises ManifestError for an object of another kind, and
    SnapshotError for a file that cannot be read.
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
    """Return the kind, namespace and name of an RBAC object."""
    metadata = obj["metadata"]
    return str(obj["kind"]), str(metadata.get("namespace") or ""), str(metadata["name"])


def _group(obj: JSON) -> str:
    return str(obj.get("apiVersion") or "").rpartition("/")[0]


def _problem(obj: JSON) -> str | None:
    """Return why an object is not a valid RBAC object, or None if it is."""
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
        return None if _is_list_of(dict, subjects) else f"{named}: `subjects` is not a list of objects"
    return _rule_problem(named, obj.get("rules"))


def _rule_problem(named: str, rules: JSON) -> str | None:
    if not _is_list_of(dict, rules):
        return f"{named}: `rules` is not a list of objects"
    for index, rule in enumerate(rules or ()):
        for field in ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"):
            if not _is_list_of(str, rule.get(field)):
                return f"{named}: `rules[{index}].{field}` is not a list of strings"
    return None


def _is_list_of(type_: type, value: JSON) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(item, type_) for item in value))


def _is_bootstrap_role(name: str) -> bool:
    """Return whether the API server creates a ClusterRole when it starts (`rbac/bootstrappolicy/policy.go`)."""
    return name in ("cluster-admin", "admin", "edit", "view") or name.startswith("system:")


def dangling_bindings(
    objects: Iterable[JSON], other_roles: Iterable[RBACKey] = (), *, bootstrapped: bool = False
) -> Iterator[str]:
    """Yield a line for each binding of a role that is neither in `objects` nor in `other_roles`.

    `bootstrapped` leaves out roles that every server creates. Yields nothing if no role is known.
    """
    listed = list(objects)
    roles = {rbac_key(obj) for obj in listed if not obj["kind"].endswith("Binding")} | set(other_roles)
    if not roles:
        return
    for obj in listed:
        if not obj["kind"].endswith("Binding"):
            continue
        kind, namespace, name = rbac_key(obj)
        ref = obj["roleRef"]
        if bootstrapped and ref["kind"] == "ClusterRole" and _is_bootstrap_role(ref["name"]):
            continue
        if (ref["kind"], namespace if ref["kind"] == "Role" else "", ref["name"]) not in roles:
            place = f"{kind} `{f'{namespace}/' if namespace else ''}{name}`"
            yield f"{place} refers to {ref['kind']} `{ref['name']}`, which is not there"


def laid_over(base: Iterable[JSON], own: Iterable[JSON] | None, deleted: Iterable[RBACKey] = ()) -> list[JSON]:
    """Return the RBAC objects `base`, replaced by those of a set with the same key, and without those that it deletes.

    Aggregated roles are resolved again if the set has RBAC objects of its own.
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
    """Return the keys of the RBAC objects that the candidate deletes.

    They include the objects that are in `rbac/` of the baseline only, if the candidate has RBAC objects.
    """
    if current.rbac is None or candidate.rbac is None:
        return candidate.removed
    return candidate.removed | frozenset(map(rbac_key, current.rbac)) - frozenset(map(rbac_key, candidate.rbac))


def digest(manifests: AuthorizationManifests) -> bytes:
    """Return bytes that are equal for manifests with the same decisions."""
    return repr(manifests.configuration).encode() + orjson.dumps([manifests.rbac, sorted(manifests.removed)])
