"""Data classes made in a tenth of the time are what `dataclasses` makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from typing import Any

import pytest

from pinprof.base.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Point:
    """A place."""

    x: int
    y: float = 0.5
    names: list[str] = dataclasses.field(default_factory=list)
    seen: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True)
class Deep(Point):
    """One with more."""

    fields: tuple[int, ...] = ()


@dataclass
class Changing:
    """What may change, and says what it is by itself."""

    size: int
    half: int = 0

    def __post_init__(self) -> None:
        self.half = self.size // 2

    def __repr__(self) -> str:
        return "changing"


@dataclass(frozen=True, eq=False, repr=False)
class Bare:
    """Compared by identity."""

    size: int


def twin(kind: Any, bases: tuple[type, ...] = (), **options: bool) -> Any:
    """The same class as `dataclasses` makes it."""
    space = {name: value for name, value in vars(kind).items() if name in ("__doc__", "__post_init__")}
    fields = [(field.name, field.type, copy.copy(field)) for field in dataclasses.fields(kind)]
    return dataclasses.make_dataclass(kind.__name__, fields, bases=bases, namespace=space, **options)


@pytest.mark.parametrize("kind", [Point, Deep])
@pytest.mark.parametrize("values", [(1,), (1, 2.0), (1, 2.0, ["a"], 5)])
def test_instances_are_those_of_dataclasses(kind: Any, values: tuple[Any, ...]) -> None:
    ours, theirs = kind(*values), twin(kind, frozen=True)(*values)
    assert repr(ours) == repr(theirs)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert ours == kind(*values)
    assert ours != kind(2)
    assert ours == dataclasses.replace(ours, seen=9)
    assert ours != theirs
    assert dataclasses.replace(ours, x=7).x == 7
    for again in (copy.copy(ours), pickle.loads(pickle.dumps(ours))):
        assert again == ours
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        hash(ours)


def test_a_frozen_class_refuses_changes_and_has_the_hash_of_its_fields() -> None:
    one = Deep(1, names=(), fields=(2, 3))  # type: ignore[arg-type]
    assert len({one, Deep(1, names=(), fields=(2, 3))}) == 1  # type: ignore[arg-type]
    for change in (lambda: setattr(one, "x", 2), lambda: delattr(one, "x"), lambda: setattr(one, "new", 2)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert one.names is not Point(1).names is not Point(1).names


def test_wrong_arguments_are_refused_as_a_function_refuses_them() -> None:
    for wrong in ({}, {"x": 1, "z": 2}):
        with pytest.raises(TypeError, match=r"Point\.__init__\(\) (missing 1 required|got an unexpected)"):
            Point(**wrong)


def test_what_a_class_has_of_its_own_stays() -> None:
    made = Changing(5)
    assert (repr(made), made.half) == ("changing", 2)
    assert Changing.__hash__ is None
    assert Bare(1) != Bare(1)
    assert len({Bare(1), Bare(1)}) == 2
    assert "object at" in repr(Bare(1))


def test_the_first_instances_may_be_made_by_many_threads() -> None:
    for _ in range(20):

        @dataclass(frozen=True)
        class Fresh:
            """Made in all threads at once."""

            number: int

        made: list[int] = []
        begin = threading.Barrier(8)

        def make(number: int, begin: threading.Barrier = begin, kind: Any = Fresh, made: list[int] = made) -> None:
            begin.wait()
            made.append(kind(number).number)

        threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(made) == list(range(8))
