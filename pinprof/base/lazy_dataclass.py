"""Data classes that are made in a tenth of the time, in place of `dataclasses.dataclass`.

`dataclasses` writes and compiles six methods for each class when its module is imported, a millisecond for each of some
three hundred. Here `dataclasses` finds the fields alone. All classes share their comparison and their text, and the
first instance of a class compiles the one method whose speed counts, which makes instances. Classes with slots are made
by `dataclasses`, whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """As `dataclasses.dataclass`, with the options `frozen`, `eq`, `repr` and `slots`."""
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        if options.get("slots"):
            return dataclasses.dataclass(cls, **options)
        frozen, eq = options.get("frozen", False), options.get("eq", True)
        # Without a text of its own `dataclasses` writes the signature there, which takes longer than all else.
        cls.__doc__ = cls.__doc__ or cls.__name__
        dataclasses.dataclass(cls, init=False, repr=False, eq=False)
        own = cls.__dict__
        shared: dict[str, Any] = {"__init__": _first_init(cls)}
        if options.get("repr", True):
            shared["__repr__"] = _text
        if eq:
            shared |= {"__eq__": _equal} | ({"__hash__": _hash} if frozen else {})
        for name, method in shared.items():
            if name not in own:
                setattr(cls, name, method)
        if eq and not frozen and "__hash__" not in own:
            cls.__hash__ = None
        if frozen:
            cls.__setattr__ = cls.__delattr__ = _refuse
        return cls


def _first_init(cls: Any) -> Any:
    """What makes the first instance: it compiles the method that makes all others."""

    def first(self: Any, *values: Any, **named: Any) -> None:
        cls.__init__ = _compiled_init(cls)
        cls.__init__(self, *values, **named)

    return first


def _compiled_init(cls: Any) -> Any:
    """A function that takes the fields in their order and puts them where attributes lie.

    Its own names begin with two underscores, so that no field is among them.
    """
    space: dict[str, Any] = {"__absent": dataclasses.MISSING}
    parameters, body = ["self"], ["__own = self.__dict__"]
    for number, field in enumerate(dataclasses.fields(cls)):
        parameter = value = field.name
        if field.default_factory is not dataclasses.MISSING:
            space[f"__made{number}"] = field.default_factory
            parameter, value = f"{value}=__absent", f"__made{number}() if {value} is __absent else {value}"
        elif field.default is not dataclasses.MISSING:
            space[f"__default{number}"] = field.default
            parameter = f"{value}=__default{number}"
        parameters.append(parameter)
        body.append(f"__own[{field.name!r}] = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body), space)  # noqa: S102 - names of fields
    method = space["__init__"]
    method.__qualname__ = f"{cls.__qualname__}.__init__"
    return method


_VALUES: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
"""What gives the fields of a class's instances by which they are compared."""


def _values(instance: Any) -> tuple[Any, ...]:
    if (given := _VALUES.get(type(instance))) is None:
        names = [field.name for field in dataclasses.fields(instance) if field.compare]
        one = len(names) < 2
        given = (lambda own: tuple([getattr(own, name) for name in names])) if one else attrgetter(*names)
        _VALUES[type(instance)] = given
    return given(instance)


def _text(instance: Any) -> str:
    fields = ", ".join(f"{name}={getattr(instance, name)!r}" for name in instance.__dataclass_fields__)
    return f"{type(instance).__qualname__}({fields})"


def _equal(instance: Any, other: Any) -> Any:
    return _values(instance) == _values(other) if type(other) is type(instance) else NotImplemented


def _hash(instance: Any) -> int:
    return hash(_values(instance))


def _refuse(_instance: Any, name: str, *_value: Any) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")
