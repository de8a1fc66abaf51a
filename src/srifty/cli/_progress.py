"""Progress on standard error for searches that take a while."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

_PATIENCE_S = 1.0


class SearchProgress:
    """A bar that appears once a search has lasted a second; nothing where nobody watches.

    Args:
        words: what is being done.
        redraws: whether a thread redraws the bar between calls; not where it would disturb what is
            being timed.
    """

    def __init__(self, words: str, *, redraws: bool = True) -> None:
        self._words = words
        self._redraws = redraws
        self._began = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._console = Console(stderr=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: float, total: int) -> None:
        """Reports that `done` of `total` configurations were looked at."""
        if not self._console.is_terminal:
            return
        if self._bar is None:
            if time.monotonic() - self._began < _PATIENCE_S:
                return
            self._bar = Progress(
                TextColumn(self._words),
                BarColumn(),
                TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
                auto_refresh=self._redraws,
            )
            self._bar.start()
            self._task = self._bar.add_task(self._words, total=total)
        if self._task is not None:
            self._bar.update(self._task, completed=done, total=total, refresh=not self._redraws)
