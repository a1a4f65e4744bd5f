"""The running command as a certificate may publish it: options as given, nothing of where files lie."""

from __future__ import annotations

import inspect
import shlex
from typing import Annotated, Any, get_args, get_origin

import typer

from certifare.cli.honoured import is_given

#: Types of parameters whose values are published as they are. Any other (a path, an address) is private.
PUBLISHED = frozenset({str, int, float, bool, type(None)})


def command_line(context: typer.Context) -> str:
    """Return the command that is running, as it may be published: options as given, but nothing of where files lie.

    What a parameter is declared as decides. A path or an address stands there by the parameter's name alone, so that
    ``certify /home/me/encoder.json people.csv --key me.pem`` becomes ``certify ENCODER DATA --key KEY``.
    """
    declared = inspect.signature(context.command.callback, eval_str=True).parameters  # type: ignore[arg-type]
    words = ["certifare", str(context.info_name)]
    for parameter in context.command.params:
        name = str(parameter.name)
        if not is_given(context, parameter):
            continue
        value = context.params[name]
        published = _leaves(declared[name].annotation) <= PUBLISHED
        for entry in value if isinstance(value, list | tuple) else [value]:
            if parameter.param_type_name == "option":
                words.append(parameter.opts[0])
                if isinstance(entry, bool):
                    continue
            words.append(str(entry) if published else name.upper())
    return shlex.join(words)


def _leaves(annotation: Any) -> set[Any]:
    """Return the plain types that a parameter is declared with: those inside lists and alternatives."""
    if get_origin(annotation) is Annotated:
        return _leaves(get_args(annotation)[0])
    inner = get_args(annotation)
    return set().union(*map(_leaves, inner)) if inner else {annotation}
