"""Classes of options: a command that takes one has an option for each of its fields."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any


class Options:
    """Base of the classes whose fields are options."""


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of the :class:`Options` that it takes, in their place."""
    signature = inspect.signature(command, eval_str=True)
    kinds = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if isinstance(parameter.annotation, type) and issubclass(parameter.annotation, Options)
    }

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in dataclasses.fields(kind)})  # type: ignore[arg-type]
            for name, kind in kinds.items()
        }
        command(**given, **made)

    unfolded: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name in kinds:
            unfolded += [_option(field) for field in dataclasses.fields(kinds[name])]  # type: ignore[arg-type]
        else:
            unfolded.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    run.__signature__ = signature.replace(parameters=unfolded)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in unfolded}
    return run


def _option(field: dataclasses.Field[Any]) -> inspect.Parameter:
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
