"""Commands by name, each imported on first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.main import get_group

from replay.cli.project.command import Command, Group

_PLACES = {
    "run": "run:run",
    "init": "project.init:init",
    "trust": "project.trust:trust",
    "accept": "project.accept:accept",
    "coverage": "coverage:coverage",
    "snapshot": "snapshot:snapshot",
    "verify": "verify:verify",
    "report": "report:report",
    "promote": "promote:promote",
    "lookup": "forensic.lookup:lookup",
    "mutations": "forensic.mutations:mutations",
    "explain": "forensic.explain:explain",
    "export": "export:export",
    "timeline": "forensic.timeline:timeline",
    "sql": "forensic.sql:sql",
    "ingest": "ingest:ingest",
    "serve": "serve:serve",
    "scan": "scan:scan",
    "check": "check:check",
    "diff": "diff:diff",
    "convert": "convert:convert",
    "test": "test:run_cases",
    "plugin": "plugin:plugin",
    "can-i": "can_i:can_i",
    "cel": "cel:cel",
    "manual": "project.manual:manual",
    "store": "store:store",
}
"""By name the module below `replay.cli` and what makes the command there, in the order of `replay --help`."""


class _Commands(Mapping[str, Any]):
    """A mapping to Typer's commands."""

    def __init__(self) -> None:
        self._commands: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._commands:
            self._commands[name] = _command(name, *_PLACES[name].split(":"))
        return self._commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


def _command(name: str, place: str, attribute: str) -> Any:
    """Return Typer's command for a function and its epilog, or for a group."""
    module = import_module(f"replay.cli.{place}")
    source = getattr(module, attribute)
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(source, typer.Typer):
        app.add_typer(source, name=name)
    else:
        app.command(name, cls=Command, epilog=module.EPILOG)(source)
    return get_group(app).commands[name]


class Commands(Group):
    """The `replay` command, with all subcommands below it."""

    def __init__(self, **settings: Any) -> None:
        """Take what Typer makes of the app."""
        super().__init__(**settings)
        self.commands = _Commands()  # type: ignore[assignment]
