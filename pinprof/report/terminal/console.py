"""The console of everything that rich draws: what it prints is printable, whoever made the text."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from pinprof.base.terminal import forget, printable_lines


class PrintableConsole(Console):
    """rich's console without markup and highlighting, and with the filter for all text that it renders."""

    def __init__(self, **options: object) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **options)  # type: ignore[arg-type]

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of text, filtered; rich's own control sequences stay as they are."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Go on without a reader; rich would end the program here."""
        forget(self.file)
