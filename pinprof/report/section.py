"""A section: a part of an answer, and how JSON, text, Markdown and page show it. A report and every answer is a list.

A section is a class below `Section` and one line in the list of its answer (`forms.Forms`). Its template, `KEY.html.j2`
in the answer's folder of templates, sees it as `section`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.markdown import block
from pinprof.report.terminal.layout import plain_lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from pinprof.report.forms import Written

Subject = TypeVar("Subject")
Kind = TypeVar("Kind", bound="type[Section[Any]]")


@dataclass(frozen=True)
class ForScripts:
    """What a section gives the page's scripts."""

    data: Mapping[str, Any] = field(default_factory=dict)
    """Entries of the page's JSON."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Plotly figures, by the `data-plot` of their place."""
    drawings: Mapping[str, Any] = field(default_factory=dict)
    """What is drawn over time, as columns."""
    packed: Mapping[str, str] = field(default_factory=dict)
    """Id of a script element → packed columns (`flame.pack`)."""
    plots: bool = False
    """Whether a script draws with plotly, besides `figures`."""


class Section(ABC, Generic[Subject]):
    """One section of an answer about a subject. All methods but `build` may be left out."""

    key: ClassVar[str]
    """Name of its template, its place on the page, and of itself among the sections of its answer."""
    title: ClassVar[str] = ""
    """Above the template; without one, there is only the template."""
    short: ClassVar[str | None] = None
    """In the page's navigation where that is not the title; empty: the navigation leaves it out."""
    absent: ClassVar[tuple[tuple[str, Any], ...]] = ()
    """Its entries of the JSON where it does not apply: keys stay."""
    shows: ClassVar[str] = ""
    """The attribute without which it is not on the page, such as `it.cures`."""
    room: ClassVar[int] = 1
    """How many lines it gets in a text of few lines, against other sections."""
    after: ClassVar[tuple[tuple[str, str], ...]] = ()
    """(form, key of the section that it follows there), where that is not the order of the page."""

    @classmethod
    @abstractmethod
    def build(cls, subject: Subject) -> Self | None:
        """The section of one subject; None where it does not apply."""

    @classmethod
    def of(cls, answer: Written[Any]) -> Self | None:
        """This section of an answer."""
        data = answer.sections.get(cls.key)
        return data if isinstance(data, cls) else None

    @property
    def heading(self) -> str:
        """The title above the template, which may name what the subject is."""
        return self.title

    @property
    def listed_as(self) -> str:
        """Its name in the page's navigation."""
        return self.heading if self.short is None else self.short

    def on_page(self) -> bool:
        """Whether there is something for its template to show."""
        return not self.shows or bool(attrgetter(self.shows)(self))

    def to_json(self) -> Mapping[str, Any]:
        """Its entries of the documented JSON."""
        return {}

    def to_text(self, console: Console) -> Iterable[RenderableType]:  # most need one
        """What the terminal prints, one below the other."""
        return ()

    def to_markdown(self) -> Iterable[str]:
        """Its lines of Markdown; by default its text, in a block."""
        lines = plain_lines(self.to_text)
        return ["", *block(lines)] if lines else []

    def for_scripts(self) -> ForScripts:
        """What the page's scripts read."""
        return ForScripts()


@dataclass(frozen=True)
class SubjectSection(Section[Subject]):
    """A section whose data is the subject itself."""

    it: Subject

    @classmethod
    def build(cls, subject: Subject) -> Self:
        """Always; what has nothing to show shows nothing."""
        return cls(subject)


def ordered(sections: Sequence[Kind], form: str) -> Iterator[Kind]:
    """The sections in the order of one form."""
    following: dict[str, list[Kind]] = defaultdict(list)
    for section in sections:
        following[dict(section.after).get(form, "")].append(section)

    def below(key: str) -> Iterator[Kind]:
        for section in following[key]:
            yield section
            yield from below(section.key)

    return below("")


def picked(value: object, names: str) -> dict[str, Any]:
    """Attributes of a value as entries of the JSON; `names` are separated by blanks."""
    return {name: getattr(value, name) for name in names.split()}


def listed(table: object, names: str) -> dict[str, list[Any]]:
    """Columns of a table as lists; `names` are separated by blanks."""
    return {name: values.tolist() for name, values in picked(table, names).items()}
