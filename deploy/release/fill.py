"""Fills in the manifests of krew and Homebrew, and the notes of a release, from what was built.

The version is that of `replay/distribution.py`; addresses are those of `[project.urls]` in `pyproject.toml`.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import runpy
import sys
import tomllib
from pathlib import Path
from string import Template

ROOT = Path(__file__).parents[2]
TEMPLATES = Path(__file__).parent
PLATFORM = """\
    - selector: {{matchLabels: {{os: {os}, arch: {arch}}}}}
      uri: {source}/releases/download/v{version}/{file}
      sha256: {digest}
      bin: kubectl-replay
"""


def main() -> None:
    """Write `replay.yaml` (krew), `kube-replay.rb` (Homebrew) and `notes.md`, or check that a tag is that of the version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check-tag")
    parser.add_argument("--files", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    version = str(runpy.run_path(str(ROOT / "replay" / "distribution.py"))["VERSION"])
    if arguments.check_tag is not None and arguments.check_tag != f"v{version}":
        sys.exit(
            f"the tag is {arguments.check_tag}, and the version v{version}: change replay/distribution.py or the tag"
        )
    notes = changes(version)
    if arguments.files is None:
        return
    source = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Source"]
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(arguments.files.iterdir())}
    sdist = one(files, r"kube_replay-.*\.tar\.gz")
    platforms = "".join(
        PLATFORM.format(os=found[1], arch=found[2], source=source, version=version, file=name, digest=digest)
        for name, digest in files.items()
        if (found := re.fullmatch(r"kubectl-replay-(\w+)-(\w+)\.tar\.gz", name))
    )
    if not platforms:
        sys.exit(f"{arguments.files}: no kubectl-replay-OS-ARCH.tar.gz")
    values = {
        "version": version,
        "source": source,
        "platforms": platforms.rstrip("\n"),
        "sdist": sdist,
        "sdist_sha256": files[sdist],
    }
    for template, name in (("krew.yaml", "replay.yaml"), ("kube-replay.rb", "kube-replay.rb")):
        (arguments.out / name).write_text(
            Template((TEMPLATES / template).read_text("utf-8")).substitute(values), "utf-8"
        )
    (arguments.out / "notes.md").write_text(notes, "utf-8")


def changes(version: str) -> str:
    """What CHANGELOG.md says of a version; ends the program where it says nothing."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    found = re.search(rf"^## \[?{re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        sys.exit(f"CHANGELOG.md: no section for {version}: write one")
    return found[1].strip() + "\n"


def one(files: dict[str, str], pattern: str) -> str:
    """The one name that a pattern means; ends the program where there is none, or more."""
    names = [name for name in files if re.fullmatch(pattern, name)]
    if len(names) != 1:
        sys.exit(f"{pattern}: {len(names)} files, and one is wanted")
    return names[0]


if __name__ == "__main__":
    main()
