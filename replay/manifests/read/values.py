"""YAML files as plain values, where it is not the API server that reads them: flags and settings of a server, configurations of plugins, snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from replay.errors import ManifestError, reason_of
from replay.json import JSON


class TextLoader(yaml.CSafeLoader):
    """YAML loader that keeps timestamps as text and makes text of all keys, because the API has no other form."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in PyYAML
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """See `SafeConstructor`."""
        return {str(key): value for key, value in super().construct_mapping(node, deep=deep).items()}


def yaml_values(path: Path) -> list[JSON]:
    """Return the documents of a YAML or JSON file that are not empty. Raises ManifestError."""
    try:
        return [each for each in yaml.load_all(path.read_bytes(), TextLoader) if each is not None]
    except OSError as error:
        raise ManifestError(f"cannot be read: {reason_of(error)}", path=str(path)) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        # PyYAML's own text repeats the place, in lines and by a name that is not the file's.
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        text = f"is not valid YAML: {' '.join(str(problem).split())}"
        raise ManifestError(text, path=str(path), line=mark.line + 1 if mark is not None else 0) from None
