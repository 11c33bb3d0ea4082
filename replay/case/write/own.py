"""A case as a file of `kind: Cases`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from replay.case.exported import Exported
from replay.json import JSON
from replay.manifests.read.yaml_resolver import UnresolvableError, resolve_scalar


class _Dumper(yaml.SafeDumper):
    """YAML dumper without anchors, which a reader would have to follow. Texts with several lines become blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True for values other than null."""
        return data is not None


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Return a text node. Texts such as `y` and `0o7` are quoted, because Kubernetes' YAML readers read other types."""
    is_block = "\n" in text and not any(line.endswith((" ", "\t")) for line in text.splitlines())
    style = "|" if is_block else None if _is_plain(text) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_plain(text: str) -> bool:
    """Return whether a text without quotes is read as a text."""
    try:
        return resolve_scalar(text, "", implicit=True) == text
    except UnresolvableError:
        return False


_Dumper.add_representer(str, _text)


def yaml_text(value: JSON) -> str:
    """Return a value as YAML, with fields in their order."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))


def case_text(exported: Exported, case: dict[str, JSON], beside: Path | None = None) -> str:
    """Return the file of a case. Paths of policies are relative to the directory `beside`."""
    document = exported.document(case)
    if beside is not None and exported.policy_paths:
        document["policies"] = [os.path.relpath(path, beside.absolute()) for path in exported.policy_paths]
    return yaml_text(document)
