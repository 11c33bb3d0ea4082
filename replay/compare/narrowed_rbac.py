"""RBAC without the rules that were never needed, as objects of a candidate set.

They are the roles and bindings that replace the current ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replay.authorization.access import Subject
from replay.authorization.manifest import RBACKey, rbac_key
from replay.compare.permission_use import BindingUse, is_unlogged
from replay.json import JSON
from replay.kube.rbac.binding import subject_key
from replay.kube.rbac.kind import CLUSTER_ROLE, RBAC_GROUP, ROLE
from replay.kube.rbac.rule import compacted, permissions_of

_KEPT = ("name", "namespace", "labels", "annotations")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def narrowed(bindings: Sequence[BindingUse], names: Iterable[RBACKey] = ()) -> list[JSON]:
    """Return the objects that change. `names` are keys that are already taken.

    A role keeps the rules that some subject of some binding needed. A binding keeps the subjects that needed it. If a
    role cannot be narrowed, the rules that a binding needs become a new role with a new binding.
    """
    taken = {rbac_key(each.binding) for each in bindings} | set(names)
    return [*_roles(bindings), *(obj for each in bindings for obj in _binding(each, taken))]


def _roles(bindings: Sequence[BindingUse]) -> Iterator[JSON]:
    """Yield the roles that can be narrowed, each once."""
    by_role: dict[RBACKey, list[BindingUse]] = {}
    for each in bindings:
        if not each.is_shared:
            by_role.setdefault(rbac_key(each.role), []).append(each)
    for _, own in sorted(by_role.items()):
        role = own[0].role
        needed = {permission for each in own if _kept(each) for permission in each.needed()}
        granted = {permission for rule in role.get("rules") or () for permission in permissions_of(rule)}
        if needed and needed != granted:
            yield _object(role["kind"], role["metadata"], {"rules": compacted(needed)})


def _binding(use: BindingUse, taken: set[RBACKey]) -> Iterator[JSON]:
    """Yield the objects that replace a binding."""
    kept, needed = _kept(use), set(use.needed())
    is_moved = use.is_shared and kept and needed != set(use.permissions)
    if is_moved:
        name = _free_name(use, taken)
        metadata = {"name": name, **({"namespace": use.key[1]} if use.key[1] else {})}
        kind = ROLE.kind if use.key[1] else CLUSTER_ROLE.kind
        yield _object(kind, metadata, {"rules": compacted(needed)})
        ref = {"apiGroup": RBAC_GROUP, "kind": kind, "name": name}
        yield _object(use.key[0], metadata, {"roleRef": ref, "subjects": kept})
    subjects = [] if is_moved else kept
    if subjects != list(use.binding.get("subjects") or ()):
        content = {"roleRef": use.binding["roleRef"], "subjects": subjects}
        yield _object(use.key[0], use.binding["metadata"], content)


def _kept(use: BindingUse) -> list[JSON]:
    """Return the subjects that needed a binding, or all subjects if a log cannot show the need."""
    subjects = list(use.binding.get("subjects") or ())
    if use.permissions and all(map(is_unlogged, use.permissions)):
        return subjects
    needed = {each.subject for each in use.subjects if each.used}
    keyed = ((each, subject_key(each, use.key[1])) for each in subjects)
    return [each for each, key in keyed if key is not None and Subject(*key) in needed]


def _free_name(use: BindingUse, taken: set[RBACKey]) -> str:
    """Return a name that no role or binding of the namespace has."""
    kind, namespace, name = use.key
    role = ROLE.kind if namespace else CLUSTER_ROLE.kind
    while (kind, namespace, name) in taken or (role, namespace, name) in taken:
        name += "-used"
    taken.add((kind, namespace, name))
    return name


def _object(kind: str, metadata: JSON, content: JSON) -> JSON:
    """Return an object without the fields that the server writes."""
    own = {name: metadata[name] for name in _KEPT if metadata.get(name)}
    if annotations := own.get("annotations"):
        own["annotations"] = {key: value for key, value in annotations.items() if key != _APPLIED}
    if not own.get("annotations"):
        own.pop("annotations", None)
    return {"apiVersion": f"{RBAC_GROUP}/v1", "kind": kind, "metadata": own, **content}
