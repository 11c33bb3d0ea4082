"""Differences of the server settings: plugins, configurations, flags, and objects that replace those of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet, PluginSettings
from replay.kube.overlay import objects_by_kind
from replay.kube.schema import CRD
from replay.manifests.object_diff import FieldDiff, ObjectDiff, Verb

PLUGIN_KIND = "AdmissionPlugin"
_NOT_READ = (
    "enable-admission-plugins",
    "disable-admission-plugins",
    "admission-control",
    "admission-control-config-file",
)


def diff_server(current: ManifestSet, candidate: ManifestSet) -> Iterator[ObjectDiff]:
    """Yield plugins in the server's order, then flags, then objects by kind and name."""
    current_plugins = {each.name: each for each in current.builtin}
    candidate_plugins = {each.name: each for each in candidate.builtin}
    for name in dict.fromkeys((*current_plugins, *candidate_plugins)):
        if name not in candidate_plugins:
            yield ObjectDiff(PLUGIN_KIND, name, Verb.REMOVED)
        elif name not in current_plugins:
            fields = tuple(diff_json("configuration", None, candidate_plugins[name].configuration))
            yield ObjectDiff(PLUGIN_KIND, name, Verb.ADDED, fields)
        elif changes := tuple(
            diff_json("configuration", current_plugins[name].configuration, candidate_plugins[name].configuration)
        ):
            yield ObjectDiff(PLUGIN_KIND, name, Verb.CHANGED, changes)
    if flags := tuple(_diff_flags(current.builtin, candidate.builtin)):
        yield ObjectDiff("kube-apiserver", "flags", Verb.CHANGED, flags)
    if current.objects != candidate.objects or candidate.removed:
        yield from _diff_objects(current, candidate)


def _diff_flags(current: tuple[PluginSettings, ...], candidate: tuple[PluginSettings, ...]) -> Iterator[FieldDiff]:
    """Yield the flags that only one of two servers has, or that differ. Flags that name plugins are compared by plugin."""
    current_flags, candidate_flags = (dict(each[0].flags) if each else {} for each in (current, candidate))
    for name in sorted({*current_flags, *candidate_flags} - set(_NOT_READ)):
        if "toleration-seconds" in name:
            yield from diff_json(f"--{name}", current_flags.get(name), candidate_flags.get(name))


def _diff_objects(current: ManifestSet, candidate: ManifestSet) -> Iterator[ObjectDiff]:
    current_objects = objects_by_kind((*candidate.removed, *current.objects))
    candidate_objects = objects_by_kind(candidate.objects)
    for kind in sorted({*current_objects, *candidate_objects}):
        old, new = current_objects.get(kind, {}), candidate_objects.get(kind, {})
        for name in sorted({*old, *new}):
            shown = "/".join(filter(None, name))
            if name not in new:
                yield ObjectDiff(kind[1], shown, Verb.REMOVED)
                continue
            if name not in old and kind == (CRD.group, CRD.kind):  # its schemas would hide all else
                yield ObjectDiff(kind[1], shown, Verb.ADDED)
                continue
            fields = tuple(diff_json("", _without_name(old.get(name)), _without_name(new[name])))
            if name not in old:
                yield ObjectDiff(kind[1], shown, Verb.ADDED, fields)
            elif fields:
                yield ObjectDiff(kind[1], shown, Verb.CHANGED, fields)


def _without_name(obj: JSON) -> JSON:
    """Return an object without the fields that its name and kind already tell."""
    if obj is None:
        return None
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in ("name", "namespace")}
    labels = {
        key: value for key, value in (metadata.get("labels") or {}).items() if key != "kubernetes.io/metadata.name"
    }
    fields = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    return {**fields, "metadata": {**metadata, "labels": labels}}


def diff_json(path: str, current: Any, candidate: Any) -> Iterator[FieldDiff]:
    """Yield the differences of two JSON values: maps key by key, and everything else as a whole."""
    if current == candidate:
        return
    if (isinstance(current, dict) or current is None) and isinstance(candidate, dict) and candidate:
        for key in dict.fromkeys((*(current or {}), *candidate)):
            shown = key if "." not in key and "/" not in key else f"[{key}]"
            inner = f"{path}{'' if shown.startswith('[') or not path else '.'}{shown}"
            yield from diff_json(inner, (current or {}).get(key), candidate.get(key))
        return
    verb = Verb.ADDED if current in (None, {}) else Verb.REMOVED if candidate in (None, {}) else Verb.CHANGED
    old, new = _text(current), _text(candidate)
    if old != new:
        yield FieldDiff(path, verb, old, new)


def _text(value: Any) -> str:
    if value is None or value == {}:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
