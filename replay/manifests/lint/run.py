"""All warnings about a set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.custom_schema import is_definition
from replay.kube.discovery import builtin_discovery
from replay.manifests.admission_configuration import LoadedConfiguration
from replay.manifests.api_object import RESERVED, LoadedApi
from replay.manifests.finding import Finding, Severity
from replay.manifests.lint import catalogue
from replay.manifests.lint.expression import lint_expressions
from replay.manifests.lint.match import lint_match
from replay.manifests.lint.warning import LintContext, SilenceableWarning, silenced_names, warned
from replay.manifests.lint.webhook import lint_own_namespace, lint_webhooks
from replay.manifests.loader import LoadedDirectory, LoadedObject
from replay.manifests.plugin import ALL_PLUGINS
from replay.manifests.read.documents import Unreadable, read_file
from replay.manifests.read.node import Mapping, Position, Scalar
from replay.manifests.served import NO_GATES, Gates
from replay.manifests.static_rule import STATIC_SUFFIX

# Warnings about entries of an AdmissionConfiguration file that have no effect.

_PLUGINS = frozenset(each.name for each in ALL_PLUGINS)
_NEXT_DOCUMENT = re.compile(rb"^(?:---|\.\.\.)(?=[\s]|\Z)", re.MULTILINE)


def _lint_configuration(configuration: LoadedConfiguration) -> Iterator[SilenceableWarning]:
    """Yield all warnings about the file."""
    try:
        data = read_file(Path(configuration.path))
    except Unreadable:
        return
    silenced = silenced_names(data.decode(errors="replace"))
    for name, message, position in _messages(configuration, data):
        finding = Finding(Severity.WARNING, name, message, configuration.path, position)
        yield SilenceableWarning(finding, silenced)


def _messages(configuration: LoadedConfiguration, data: bytes) -> Iterator[tuple[str, str, Position]]:
    names: set[str] = set()
    for entry in configuration.entries:
        if entry.name not in _PLUGINS:
            yield catalogue.UNKNOWN_PLUGIN, f"no plugin `{entry.name}` is known; the entry does nothing", entry.position
        if entry.name in names:
            yield catalogue.PLUGIN_TWICE, f"`{entry.name}` is configured above; this entry does nothing", entry.position
        names.add(entry.name)
    for marker in list(_NEXT_DOCUMENT.finditer(data)):
        if (
            data[: marker.start()].strip()
            and data[marker.end() :].strip()
            and not _has_only_comments(data[: marker.start()])
        ):
            line = data[: marker.start()].count(b"\n") + 1
            yield catalogue.IGNORED_DOCUMENT, "a further document is not read", Position(line, 1)
            return


def _has_only_comments(data: bytes) -> bool:
    return all(not line.strip() or line.lstrip().startswith(b"#") for line in data.splitlines())


_OF_API_HOOKS = frozenset({catalogue.OWN_NAMESPACE})
"""Warnings that are not for static objects. Another warning says that these must not need the cluster at all."""
_OF_STATIC_HOOKS = frozenset({catalogue.ADMISSION_LOCKOUT, catalogue.CLUSTER_WEBHOOK})
"""Warnings that are not for API-based objects. They never see their own kinds, and exist only with the cluster."""


def lint(  # noqa: PLR0913 - all that a set may hold
    directories: Sequence[LoadedDirectory],
    version: KubernetesVersion,
    *,
    configuration: LoadedConfiguration | None = None,
    cluster: Sequence[JSON] | None = None,
    api: LoadedApi | None = None,
    own: Sequence[JSON] = (),
    gates: Gates = NO_GATES,
) -> list[SilenceableWarning]:
    """Return the warnings about objects that the server accepts, by directory, file and line.

    `cluster` are objects of a snapshot, `own` the objects of the set other than admission configuration, `gates` those
    of its server.
    """
    warnings = list(_lint_configuration(configuration)) if configuration is not None else []
    parts: Sequence[LoadedDirectory | LoadedApi] = directories if api is None else (*directories, api)
    for directory in parts:
        context = _context(directory, version, gates, cluster, own)
        in_directory = [
            each for loaded in directory.objects if loaded.is_valid for each in _lint_object(loaded, context)
        ]
        if isinstance(directory, LoadedApi) and not directory.is_suffix_free:
            in_directory += [
                warned(loaded, catalogue.RESERVED_NAME, f"metadata.name: {RESERVED}", "metadata.name")
                for loaded in directory.objects
                if loaded.is_valid and loaded.name.endswith(STATIC_SUFFIX)
            ]
        warnings += sorted(in_directory, key=lambda each: (each.finding.path, each.finding.position))
    return warnings


def _context(
    directory: LoadedDirectory | LoadedApi,
    version: KubernetesVersion,
    gates: Gates,
    cluster: Sequence[JSON] | None,
    own: Sequence[JSON],
) -> LintContext:
    crds = list(filter(is_definition, (*(cluster or ()), *own)))
    namespaces = None if cluster is None else [obj for obj in cluster if obj.get("kind") == "Namespace"]
    discovery = builtin_discovery(version.minor).with_crds(crds)
    return LintContext(directory.objects, discovery, version, gates, namespaces, crds)


def _lint_object(loaded: LoadedObject, context: LintContext) -> list[SilenceableWarning]:
    warnings = [*lint_match(loaded, context), *lint_expressions(loaded, context)]
    if loaded.kind == "ValidatingAdmissionPolicy":
        for each in context.type_checker.check(loaded.value):
            severity = Severity.WARNING if each.can_fail else Severity.INFO
            warnings.append(warned(loaded, catalogue.TYPE_CHECKING, each.warning.rstrip(), each.field_ref, severity))
    if loaded.kind.endswith("WebhookConfiguration"):
        warnings += [*lint_webhooks(loaded), *lint_own_namespace(loaded, context)]
    kind = loaded.node.get("kind") if isinstance(loaded.node, Mapping) else None
    if isinstance(kind, Scalar) and kind.value not in (None, loaded.kind):
        message = f"the item calls itself `{kind.value}` and is read as {loaded.kind}"
        warnings.append(warned(loaded, catalogue.IGNORED_KIND, message, "kind"))
    others = _OF_API_HOOKS if loaded.name.endswith(STATIC_SUFFIX) else _OF_STATIC_HOOKS
    return [each for each in warnings if each.finding.name not in others]
