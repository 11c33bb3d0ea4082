"""The documents of a file as plain values, where their positions do not matter: flags and settings of a server, configurations of plugins."""

from __future__ import annotations

from pathlib import Path

from replay.errors import ManifestError, reason_of
from replay.json import JSON
from replay.manifests.go_type.decode import plain
from replay.manifests.read.documents import Unreadable, split_documents
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml


def yaml_values(path: Path) -> list[JSON]:
    """Return the documents of a YAML or JSON file that are not empty, as the API server reads them. Raises ManifestError."""
    try:
        documents = list(split_documents(str(path), path.read_bytes()))
        values = [plain(read_yaml(each.data, each.line).node) for each in documents]
    except OSError as error:
        raise ManifestError(f"cannot be read: {reason_of(error)}", path=str(path)) from error
    except Unreadable as error:
        raise ManifestError(error.reason, path=str(path), line=error.line) from error
    except YAMLSyntaxError as error:
        place = error.position
        raise ManifestError(
            f"is not valid YAML: {error}", path=str(path), line=place.line, column=place.column
        ) from error
    return [each for each in values if each is not None]
