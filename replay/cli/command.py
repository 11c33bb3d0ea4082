"""Commands by name, each imported on first use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from replay.checkout import require_links_inside
from replay.cli.project import is_path, key_of, notice, path_in

# A command that takes its options from the command line, the environment or a project file, in this order.
# The shell completes policies, namespaces and audit IDs from the store.

_LITERAL = (str, Path, bool)


def _coerce_literally(parameters: Iterable[Any]) -> None:
    """Skip Typer's conversion for parameters that need none."""
    for parameter in parameters:
        parameter._runtime_param = _LiteralCoercion()  # noqa: SLF001 - where Typer keeps its own


class _LiteralCoercion:
    """Replacement for Typer's conversion, which imports Pydantic slowly.

    Texts, paths, flags and defaults are used directly. Typer converts numbers and choices.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the converted value. Raises Typer's errors."""
        annotation = param.type_descriptor.annotation
        is_list = get_origin(annotation) is list
        kind = get_args(annotation)[0] if is_list else annotation
        if value is None:
            return () if is_list else None
        values = list(value) if is_list and isinstance(value, (list, tuple)) else [value]
        if kind is int and type(value) is int and value == param.default:
            return value
        if is_list is not isinstance(value, (list, tuple)) or not all(_is_literal(each, kind) for each in values):
            param._runtime_param = None  # noqa: SLF001 - Typer makes its own where there is none
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
        literals = [kind(each) if kind is Path else each for each in values]
        return literals if is_list else literals[0]


def _is_literal(value: object, kind: object) -> bool:
    """Return whether a value needs no conversion, or is a path's text."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return isinstance(value, kind)
    return kind in _LITERAL and isinstance(value, str if kind is Path else kind)


_COMPLETED = {
    "policy": "select distinct policy from decision where starts_with(':' || policy, $start) order by all limit 200",
    "namespace": "select distinct namespace from request where namespace <> '' and starts_with(':' || namespace, $start) order by all limit 200",
    "audit_id": "select distinct audit_id from request where starts_with(':' || audit_id, $start) order by all limit 200",
}
"""Query for each completed parameter. A colon keeps typed digits from being a number."""


def _completed(context: Any, parameter: Any, incomplete: str) -> list[str]:
    """Return the store's values with the typed prefix; none without a readable store.

    The store comes from the command line, the environment, or a project file inside the checkout.
    """
    from replay.errors import ReplayError

    try:
        store = context.params.get("store") or os.environ.get("REPLAY_STORE") or _store_of_project()
        return _values(str(store), _COMPLETED[parameter.name], incomplete) if store else []
    except (ReplayError, OSError):  # a shell shows no errors
        return []


def _values(store: str, query: str, start: str) -> list[str]:
    from replay.pipeline.forensic.sql import run_query
    from replay.pipeline.scenario import Scenario
    from replay.storage.location import is_bucket

    if is_bucket(store) or not (Path(store) / "store.json").is_file():
        return []
    rows = run_query(Scenario(store=store), query, {"start": f":{start}"}, lambda *_: None)
    return [str(value) for (value,) in rows.iter_rows()]


def _store_of_project() -> str | None:
    from replay.cli.project import (
        find_project_file,
        read_project_file,
        reason_for_trust,
    )

    path = find_project_file(Path.cwd())
    store = read_project_file(path).values.get("store") if path is not None else None
    if path is None or not isinstance(store, str) or reason_for_trust("store", store, str, path):
        return None
    return str(path.parent / store)


TRUST = "trust"
"""The command that trusts a checkout, whatever its links."""
UNTRUSTED = "replay.untrusted"
"""Under which name a context has the project's file and its values that need trust."""
_RANKS = {"DEFAULT": 0, "DEFAULT_MAP": 1, "ENVIRONMENT": 2, "PROMPT": 3, "COMMANDLINE": 3}
_TOGETHER = (("logs", "store"), ("candidate", "add", "apply"))
"""What says one thing together: where to read a log, what is planned."""
_OF_EACH = ("lookup", "report")
"""Commands that several clusters of a store can be asked about at once."""
_OF_A_SCENARIO = ("current", "candidate", "add", "apply", "cluster")
_METAVARS = {
    **dict.fromkeys(("cluster", "accepted", "rejects", "outcomes", "html", "previous", "request", "params"), "FILE"),
    **dict.fromkeys(("old_object", "namespace_object", "authorization", "reload_from", "drift_metrics"), "FILE"),
    **dict.fromkeys(("tls_cert_file", "tls_private_key_file", "client_ca_file", "kubeconfig", "config"), "FILE"),
    **dict.fromkeys(("save_cases", "report", "kubeconfig_root", "directory"), "DIR"),
    **dict.fromkeys(("since", "until"), "TIME"),
    **dict.fromkeys(("keep", "flush_age"), "DURATION"),
    **dict.fromkeys(("keep_size", "flush_size"), "SIZE"),
    **dict.fromkeys(("field_selector", "label_selector"), "SELECTOR"),
    **dict.fromkeys(("kubernetes_version", "current_version", "candidate_version"), "VERSION"),
    "logs": "LOG",
    "sets": "SET",
    "audit_id": "AUDIT-ID",
    "tz": "ZONE",
    "owner_label": "LABEL",
    "authorization_mode": "MODES|FILE",
    "param": "KEY=VALUE",
    "expires": "DATE|DURATION",
    "silence": "WARNING",
}
"""What help calls the value of a parameter; other parameters are called by their type or by their own name."""


class _Group(TyperGroup):
    """The `replay` command without a subcommand. Its options come before those of a subcommand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options before the subcommand."""
        _coerce_literally(self.get_params(ctx))
        return super().parse_args(ctx, args)


class Command(TyperCommand):
    """A subcommand. The option that is set closest to the user wins over the others for the same thing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create the command, with an environment variable for each option."""
        super().__init__(*args, **kwargs)
        self.rich_markup_mode = None  # a table would cut words and names where the terminal is narrow
        self.short_help = self.short_help or (self.help or "").partition("\n\n")[0]  # which is not cut
        for parameter in self.params:
            long = next((each for each in parameter.opts if each.startswith("--")), "")
            if parameter.name in _COMPLETED:
                parameter._custom_shell_complete = _completed  # noqa: SLF001 - where Typer keeps it
            if parameter.metavar is None:
                parameter.metavar = _metavar(parameter)
            if parameter.param_type_name == "argument":  # its name says what it is; help would add the Python type
                parameter.display_type_rich = _no_type  # type: ignore[attr-defined]
            if long and parameter.envvar is None:  # what several commands share has one of its own, which help shows
                parameter.envvar = f"REPLAY_{self.name}_{long[2:]}".upper().replace("-", "_")
                parameter.show_envvar = False  # type: ignore[attr-defined]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options and arguments of the command line."""
        _coerce_literally(self.get_params(ctx))
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter:  # the project file may set a required option that is not used
            self._tell_unused(ctx)
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command with the options that remain. For example `replay run other.jsonl` does not also read the project's store."""
        for names in _TOGETHER:
            self._silence(ctx, names, max((self._rank(ctx, name) for name in names), default=0))
        logs = ctx.params.get("logs")
        if logs:
            from replay.pipeline.scenario import Scenario

            if Scenario(tuple(logs)).resolved().candidate is not None:
                self._silence(ctx, _OF_A_SCENARIO, self._rank(ctx, "logs"))
        self._tell_unused(ctx)
        self._refuse_links(ctx)
        if self.name in _OF_EACH and not logs:
            return self._invoke_each(ctx)
        return super().invoke(ctx)

    def _tell_unused(self, ctx: typer.Context) -> None:
        """Print which values of the project file are not used."""
        file, values = ctx.meta.get(UNTRUSTED, (None, ()))
        words = _words(ctx)
        unused = [
            each.untrusted for each in values if each.command == words and self._is_left_open(ctx, each.parameter)
        ]
        if unused:
            sys.stderr.write(f"replay: {notice(file, unused)}\n")

    def _refuse_links(self, ctx: typer.Context) -> None:
        """Raise ReplayError for paths of links that lead out of the checkout."""
        for parameter in self.params if self.name != TRUST else ():
            value = ctx.params.get(str(parameter.name))
            annotation = parameter.type_descriptor.annotation  # type: ignore[attr-defined]
            if value and is_path(key_of(parameter), annotation):
                for each in value if isinstance(value, list | tuple) else (value,):
                    require_links_inside(path_in(str(each)))

    @staticmethod
    def _is_left_open(ctx: typer.Context, name: str) -> bool:
        """Return whether neither the command line nor the environment sets a parameter."""
        source = ctx.get_parameter_source(name)
        return source is None or _RANKS[source.name] == 0

    def _invoke_each(self, ctx: typer.Context) -> Any:
        """Run the command for each matching cluster, one after another. Each cluster gets an output directory with its name."""
        from replay.storage.location import is_pattern, matching_clusters

        store, pattern, out = (ctx.params.get(name) for name in ("store", "cluster_name", "out"))
        if store is None or pattern is None or not is_pattern(pattern):
            return super().invoke(ctx)
        for name in matching_clusters(store, pattern):
            ctx.params["cluster_name"] = name
            if out is not None:
                ctx.params["out"] = out / name
            super().invoke(ctx)
        return None

    def _silence(self, ctx: typer.Context, names: tuple[str, ...], rank: int) -> None:
        """Remove the values of parameters that a higher-ranking source replaces. Values that a command requires stay."""
        for parameter in self.params:
            if parameter.name in names and not parameter.required and self._rank(ctx, parameter.name) < rank:
                ctx.params[parameter.name] = None

    @staticmethod
    def _rank(ctx: typer.Context, name: str) -> int:
        source = ctx.get_parameter_source(name)
        return _RANKS[source.name] if source is not None and ctx.params.get(name) is not None else 0


def _words(ctx: Any) -> tuple[str, ...]:
    """Return the words that call a command, without the name of the program."""
    return (*_words(ctx.parent), ctx.info_name) if ctx.parent is not None else ()


def _no_type(ctx: Any) -> str:  # noqa: ARG001 - the signature is Typer's
    """Return the type of an argument as help shows it: nothing."""
    return ""


def _metavar(parameter: Any) -> str | None:
    """Return what help calls the value of a parameter; None for flags, which have no value, and for a single choice."""
    annotation = parameter.type_descriptor.annotation
    kinds = [kind for kind in (*get_args(annotation), annotation) if isinstance(kind, type)]
    if getattr(parameter, "is_flag", False) or bool in kinds:
        return None
    if choices := next((kind for kind in kinds if issubclass(kind, Enum)), None):
        return "|".join(str(each.value) for each in choices)
    if parameter.name in _METAVARS:
        return _METAVARS[parameter.name]
    if any(issubclass(kind, int | float) for kind in kinds):
        return "NUMBER"
    if any(issubclass(kind, Path) for kind in kinds):
        return "PATH"
    return str(parameter.name).strip("_").upper().replace("_", "-")


_MODULES = {
    "run": "run",
    "init": "project_file",
    "trust": "project_file",
    "accept": "run",
    "coverage": "basis",
    "snapshot": "basis",
    "verify": "basis",
    "report": "report",
    "promote": "report",
    "lookup": "forensic",
    "mutations": "forensic",
    "explain": "forensic",
    "export": "case",
    "timeline": "forensic",
    "sql": "store",
    "ingest": "store",
    "serve": "serve",
    "scan": "case",
    "check": "check",
    "diff": "diff",
    "convert": "diff",
    "test": "case",
    "plugin": "case",
    "can-i": "can_i",
    "cel": "cel",
    "manual": "manual",
    "store": "store",
}
"""The module of each command, in the order of `replay --help`. A command is the function of its name, with an epilog beside it."""


class _Commands(Mapping[str, Any]):
    """A mapping to Typer's commands."""

    def __init__(self) -> None:
        self._commands: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in _MODULES:
            raise KeyError(name)
        if name not in self._commands:
            self._commands[name] = _command(name)
        return self._commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


def _command(name: str) -> Any:
    """Return Typer's command for a function and its epilog, or for a group."""
    own = name.replace("-", "_")
    module = import_module(f"replay.cli.{_MODULES[name]}")
    source = getattr(module, own)
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(source, typer.Typer):
        app.add_typer(source, name=name)
    else:
        app.command(name, cls=Command, epilog=getattr(module, f"{own.upper()}_EPILOG"))(source)
    return get_group(app).commands[name]


class Commands(_Group):
    """The `replay` command, with all subcommands below it."""

    def __init__(self, **settings: Any) -> None:
        """Take what Typer makes of the app."""
        super().__init__(**settings)
        self.commands = _Commands()  # type: ignore[assignment]
