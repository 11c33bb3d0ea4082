"""`replay manual`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from replay.distribution import VERSION

MANUAL_EPILOG = (
    "Examples: replay manual ~/.local/share/man/man1\n\n"
    "replay manual docs/commands --format markdown\n\n"
    "Completions: replay --install-completion\n\n"
    "Exit code: 0 the pages are written, 2 or more an error."
)
_MARKUP = re.compile(r"\[/?(?:bold|italic|dim)\]")
_SECTIONS = re.compile(r"^(Examples?|Exit code|Then|Completions): *")


class ManualFormat(StrEnum):
    """Format of the pages."""

    MAN = "man"
    MARKDOWN = "markdown"


def manual(
    context: typer.Context,
    directory: Annotated[
        Path, typer.Argument(help="Directory for the pages. It is created if it does not exist.", metavar="DIR")
    ],
    output: Annotated[ManualFormat, typer.Option("--format", help="Pages for man(1), or Markdown.")] = ManualFormat.MAN,
) -> None:
    """Write the manual: one page per command, from the text of `--help`."""
    from replay.pipeline.whole_file import write_files

    parent = context.parent
    assert parent is not None
    manual_pages = pages(parent.command, output)
    write_files(directory, manual_pages, "the manual")
    sys.stderr.write(f"{len(manual_pages)} pages in {directory}\n")


def pages(group: Any, form: ManualFormat) -> dict[str, str]:
    """Return the pages of all commands by file name."""
    commands = dict(sorted(_commands(group, "replay")))
    if form is ManualFormat.MAN:
        return {f"{name.replace(' ', '-')}.1": _man(name, each) for name, each in commands.items()}
    index = "".join(
        f"| [{name}]({name.replace(' ', '-')}.md) | {_question(each)} |\n" for name, each in commands.items()
    )
    pages_by_name = {f"{name.replace(' ', '-')}.md": _markdown(name, each) for name, each in commands.items()}
    return {
        "README.md": f"# Commands\n\nMade by `replay manual`.\n\n| command | answers |\n| --- | --- |\n{index}",
        **pages_by_name,
    }


def _commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    for key, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{name} {key}")
        else:
            yield f"{name} {key}", command


def _paragraphs(text: str | None) -> list[str]:
    """Return a help text as paragraphs of one line each."""
    return [" ".join(_MARKUP.sub("", part).split()) for part in re.split(r"\n\s*\n", text or "") if part.strip()]


def _question(command: Any) -> str:
    return next(iter(_paragraphs(command.help)), "")


def _usage(name: str, command: Any) -> str:
    arguments = [_argument(each) for each in command.params if each.param_type_name == "argument"]
    return " ".join([name, "[OPTIONS]", *arguments])


def _argument(parameter: Any) -> str:
    shown = (parameter.metavar or parameter.name.upper()).strip("[].")
    shown += "..." if parameter.nargs != 1 else ""
    return shown if parameter.required else f"[{shown}]"


def _term(parameter: Any) -> str:
    """Return an option with its short form and metavar, as in `-n, --namespace NAMESPACE`, or the name of an argument."""
    if parameter.param_type_name == "argument":
        return _argument(parameter)
    names = ", ".join((*sorted(parameter.opts, key=len), *parameter.secondary_opts))
    return names if getattr(parameter, "is_flag", False) else f"{names} {_value(parameter)}"


def _value(parameter: Any) -> str:
    kind = parameter.type_descriptor
    if parameter.metavar:
        return str(parameter.metavar)
    if kind.is_choice:
        return "|".join(str(each.value) for each in kind.choices)
    return _word(kind.annotation)


def _word(annotation: Any) -> str:
    text = str(annotation)
    return next(
        (word for key, word in (("Path", "PATH"), ("int", "NUMBER"), ("float", "NUMBER")) if key in text), "TEXT"
    )


def _meaning(parameter: Any) -> str:
    """Return an option's meaning, default and environment variable."""
    help_text = " ".join(_MARKUP.sub("", parameter.help or "").split())
    default = getattr(parameter.default, "value", parameter.default)
    if default not in (None, "", False, ()) and parameter.show_default and not callable(default):
        help_text += f" Default: {'yes' if default is True else default}."
    return (
        f"{help_text} [{parameter.envvar}]"
        if parameter.envvar and getattr(parameter, "show_envvar", True)
        else help_text
    )


def _parameters(command: Any) -> list[tuple[str, str]]:
    return [
        (_term(each), _meaning(each))
        for each in command.params
        if each.name != "help" and not getattr(each, "hidden", False)
    ]


def _epilogue(command: Any) -> Iterator[tuple[str, list[str]]]:
    """Return the headings and lines of the end of a help text: examples and exit codes."""
    heading, lines = "Examples", list[str]()
    for paragraph in _paragraphs(command.epilog):
        if match := _SECTIONS.match(paragraph):
            if lines:
                yield heading, lines
            heading, lines = ("Examples" if match[1] in ("Example", "Then") else match[1]), []
            paragraph = paragraph[match.end() :]  # noqa: PLW2901 - what is left of it
        lines.append(paragraph)
    if lines:
        yield heading, lines


def _markdown(name: str, command: Any) -> str:
    lines = [f"# {name}", "", *(line for part in _paragraphs(command.help) for line in (part, ""))]
    lines += ["```sh", _usage(name, command), "```", "", "| option | meaning |", "| --- | --- |"]
    lines += [f"| `{_cell(term)}` | {_cell(meaning)} |" for term, meaning in _parameters(command)]
    for heading, lines_told in _epilogue(command):
        is_code = heading in ("Examples", "Completions")
        lines += ["", f"## {heading}", "", *(["```sh", *lines_told, "```"] if is_code else lines_told)]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" in text else text.replace("|", "\\|")


def _man(name: str, command: Any) -> str:

    title = name.replace(" ", "-")
    lines = [
        f'.TH {title.upper()} 1 "" "replay {VERSION}"',
        ".SH NAME",
        f"{title} \\- {_roff(_question(command))}",
    ]
    lines += [".SH SYNOPSIS", f".B {_roff(_usage(name, command))}", ".SH DESCRIPTION"]
    lines += [line for part in _paragraphs(command.help) for line in (".PP", _roff(part))]
    lines.append(".SH OPTIONS")
    for term, meaning in _parameters(command):
        lines += [".TP", f".B {_roff(term)}", _roff(meaning)]
    for heading, lines_told in _epilogue(command):
        lines.append(f".SH {heading.upper()}")
        lines += [line for each in lines_told for line in (".PP", _roff(each))]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    """Escape a text for roff. A backslash, a hyphen, and a dot or quote at the beginning of a line have a meaning there."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped or "\\&"
