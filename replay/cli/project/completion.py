"""Shell completion from the store: policies, namespaces and audit IDs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

COMPLETED = {
    "policy": "select distinct policy from decision where starts_with(':' || policy, $start) order by all limit 200",
    "namespace": "select distinct namespace from request where namespace <> '' and starts_with(':' || namespace, $start) order by all limit 200",
    "audit_id": "select distinct audit_id from request where starts_with(':' || audit_id, $start) order by all limit 200",
}
"""Query for each completed parameter. A colon keeps typed digits from being a number."""


def completed(context: Any, parameter: Any, incomplete: str) -> list[str]:
    """Return the store's values with the typed prefix; none without a readable store.

    The store comes from the command line, the environment, or a project file inside the checkout.
    """
    from replay.errors import ReplayError  # noqa: PLC0415 - `--help` must not pay for it

    try:
        store = context.params.get("store") or os.environ.get("REPLAY_STORE") or _store_of_project()
        return _values(str(store), COMPLETED[parameter.name], incomplete) if store else []
    except (ReplayError, OSError):  # a shell shows no errors
        return []


def _values(store: str, query: str, start: str) -> list[str]:
    from replay.pipeline.forensic.sql import run_query  # noqa: PLC0415 - as above
    from replay.pipeline.scenario import Scenario  # noqa: PLC0415 - as above
    from replay.storage.location import is_url  # noqa: PLC0415 - as above

    if is_url(store) or not (Path(store) / "store.json").is_file():
        return []
    rows = run_query(Scenario(store=store), query, {"start": f":{start}"}, lambda *_: None)
    return [str(value) for (value,) in rows.iter_rows()]


def _store_of_project() -> str | None:
    from replay.cli.project.file import find_project_file, read_project_file  # noqa: PLC0415 - as above
    from replay.cli.project.untrusted import reason_for_trust  # noqa: PLC0415 - as above

    path = find_project_file(Path.cwd())
    store = read_project_file(path).values.get("store") if path is not None else None
    if path is None or not isinstance(store, str) or reason_for_trust("store", store, str, path):
        return None
    return str(path.parent / store)
