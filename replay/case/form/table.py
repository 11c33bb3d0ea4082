"""The forms of cases, ours and those of other tools: how each is found, read and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from replay.case.case import CaseFile
from replay.case.exported import Exported
from replay.case.form.gator import gator_files, is_gator, read_gator
from replay.case.form.kat import kat_files, read_kat, tested_directory
from replay.case.form.kubectl import kubectl_files
from replay.case.form.kubescape import is_kubescape, read_kubescape
from replay.case.form.kyverno import is_kyverno, kyverno_files, read_kyverno
from replay.case.form.own import is_own, read_own
from replay.case.form.review import is_review, read_reviews, review_files
from replay.case.policies import PolicyLoader
from replay.json import JSON


class Form(NamedTuple):
    """Form of cases. One that is never found or never written lacks those fields.

    A file is of the form if `is_file` says so of its path, or `is_document` of its first document. `kind` is a text that
    occurs in every such file: searching is faster than parsing a whole repository. A directory is of the form as a whole
    if `directory` names it. `called` says what `replay test` runs, and `empty` what a file without a case is.
    `is_directory` says that `files` makes several files.
    """

    name: str
    called: str = ""
    empty: str = ""
    read: Callable[[Path, PolicyLoader], CaseFile] | None = None
    kind: bytes = b""
    is_document: Callable[[JSON], bool] | None = None
    is_file: Callable[[Path], bool] | None = None
    directory: Callable[[Path], Path | None] | None = None
    files: Callable[[Exported], Mapping[str, str]] | None = None
    is_directory: bool = False


FORMS: Final = (
    Form("replay", "kind: Cases of replay", "file of cases without a case", read_own, b"Cases", is_own),
    Form(
        "kat", "kat", "kat directory without a test", read_kat,
        directory=tested_directory, files=kat_files, is_directory=True,
    ),
    Form(
        "kyverno", "kyverno-test.yaml", "kyverno test without a result", read_kyverno, b"Test", is_kyverno,
        files=kyverno_files, is_directory=True,
    ),
    Form(
        "gator", "gator suites", "gator suite without a native policy or ConstraintTemplate", read_gator, b"Suite", is_gator,
        files=gator_files, is_directory=True,
    ),
    Form(
        "kubescape", "kubescape's tests.json", "kubescape file without a test", read_kubescape, is_file=is_kubescape,
    ),
    Form(
        "review", "AdmissionReviews with a response", "review", read_reviews, b"AdmissionReview", is_review,
        files=review_files,
    ),
    Form("kubectl", files=kubectl_files),
)  # fmt: skip
BY_NAME: Final = {form.name: form for form in FORMS}
SUPPORTED: Final = ", ".join(form.called for form in FORMS if form.called)
