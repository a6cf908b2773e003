"""Recordings of some steps of a training loop: by a schedule as torch.profiler's, or in a library's own way.

    with pinprof.steps(wait=10, warmup=2, active=5) as steps:
        for batch in loader:
            train(batch)
            steps.step()

Nothing here ends a training: what keeps pinprof from recording is a warning of the logger `pinprof`.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from pinprof.base.errors import PinprofError, ToolMissing, UsageError

if TYPE_CHECKING:
    from pinprof.api import Recording

_P = ParamSpec("_P")
_R = TypeVar("_R")

SAVING = "pinprof_saving_s"
"""The metric: seconds of the recorded steps that the best change saves, 0 where none is known."""
_log = logging.getLogger("pinprof")


class RecordedSteps:
    """Records the active steps of a loop; see `steps`."""

    def __init__(
        self, *, wait: int, warmup: int, active: int, repeat: int, enabled: bool, options: dict[str, Any]
    ) -> None:
        if min(wait, warmup, repeat) < 0 or active < 1:
            raise UsageError(
                "A schedule has at least one active step, and no negative number.",
                "Give `wait`, `warmup` and `repeat` from 0 on, and `active` from 1 on.",
                "recording",
            )
        self._idle, self._active, self._repeat = wait + warmup, active, repeat
        self._options: dict[str, Any] = {"name": "steps", "calibrate": False} | options
        self._step = 0
        self._off = not enabled
        self._recording: Recording | None = None
        self._phase = ExitStack()
        self.paths: list[Path] = []
        """The captures that are whole, in their order."""
        self.metrics: dict[str, float] = {}
        """After the end: `pinprof_saving_s` of the last capture."""

    def __enter__(self) -> Self:
        self._begin()
        return self

    def step(self) -> None:
        """A step of the loop has ended."""
        self._phase.close()
        self._step += 1
        if self._step % self._cycle == 0:
            self._close()
        self._begin()

    def __exit__(self, *error: object) -> None:
        self._phase.close()
        self._close()
        self._explain()

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Every call of a function is a step; the answer is logged when the last active one has ended."""

        @functools.wraps(function)
        def called(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
            if not self._step:
                self._begin()
            result = function(*arguments, **keywords)
            self.step()
            if self._repeat and self._step == self._cycle * self._repeat:
                self._explain()
            return result

        return called

    @property
    def _cycle(self) -> int:
        return self._idle + self._active

    def _begin(self) -> None:
        """Begin the recording if the next step is the first active one, and the step's range if it is active."""
        cycle, place = divmod(self._step, self._cycle)
        if self._off or (self._repeat and cycle >= self._repeat) or place < self._idle:
            return
        from pinprof import api
        from pinprof.scenario.ranges import phase

        if place == self._idle:
            try:
                self._recording = api.record(**self._options).__enter__()
            except PinprofError as error:
                self._give_up(error)
                return
        if self._recording is not None:
            self._phase.enter_context(phase("step"))

    def _close(self) -> None:
        """End the recording, if there is one."""
        recording, self._recording = self._recording, None
        try:
            if recording is not None:
                recording.__exit__(None, None, None)
                self.paths += [recording.path] if recording.path else []
        except PinprofError as error:
            self._give_up(error)

    def _explain(self) -> None:
        """Log the answer of every capture: now, since that takes seconds."""
        from pinprof import api

        for path in self.paths:
            try:
                result = api.open_result(path)
                found = result.analysis.opportunities
                first = found.found[0].saving.likely_ns / 1e9 if found and found.found else 0.0
                self.metrics = {SAVING: first}
                _log.info("%s More: pinprof report %s", result.headline, path)
            except PinprofError as error:
                self._give_up(error)

    def _give_up(self, error: PinprofError) -> None:
        self._off = True
        _log.warning("pinprof records no more steps: %s", error)


def steps(
    *,
    wait: int = 0,
    warmup: int = 0,
    active: int = 5,
    repeat: int = 1,
    enabled: bool = True,
    **options: Any,
) -> RecordedSteps:
    """Record some steps of a loop: a context manager whose `step()` ends a step, and a decorator of a step.

    `wait` and then `warmup` steps run without recording, the next `active` ones are recorded into one capture, each as
    a range `step`; this `repeat` times, 0 for always. These are the steps that torch.profiler records by the same
    schedule. Nothing is recorded unless `enabled`, such as `rank == 0`. `options` are those of `pinprof.record`. The
    answers are logged at the end as INFO of the logger `pinprof`, and what keeps pinprof from recording as WARNING.

    Raises UsageError for numbers that do not make a schedule.
    """
    return RecordedSteps(wait=wait, warmup=warmup, active=active, repeat=repeat, enabled=enabled, options=options)


def lightning(ranks: Collection[int] = (0,), **schedule: Any) -> Any:
    """A callback for Lightning's `Trainer(callbacks=[…])`, with the keywords of `steps`; a step is a batch of training.

    These `ranks` record. The metric `pinprof_saving_s` goes to the trainer's loggers when training ends. ToolMissing
    without Lightning.
    """
    base = _base("Callback", "lightning.pytorch", "pytorch_lightning")

    class Recorder(base):  # type: ignore[misc, valid-type]
        def on_train_start(self, trainer: Any, *_: Any) -> None:
            self.steps = _of_rank(trainer.global_rank, ranks, schedule).__enter__()

        def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
            self.steps.step()

        def on_train_end(self, trainer: Any, *_: Any) -> None:
            self.steps.__exit__()
            for logger in trainer.loggers if self.steps.metrics else ():
                logger.log_metrics(self.steps.metrics, step=trainer.global_step)

        def on_exception(self, trainer: Any, *_: Any) -> None:
            if hasattr(self, "steps"):
                self.steps.__exit__()

    return Recorder()


def hugging_face(trainer: Any, ranks: Collection[int] = (0,), **schedule: Any) -> Any:
    """A callback for the `add_callback` of a Hugging Face Trainer, with the keywords of `steps`; a step is an update.

    These `ranks` record. The metric `pinprof_saving_s` goes through `trainer.log` when training ends. ToolMissing
    without transformers.
    """
    base = _base("TrainerCallback", "transformers")

    class Recorder(base):  # type: ignore[misc, valid-type]
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.steps = _of_rank(trainer.args.process_index, ranks, schedule).__enter__()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.steps.step()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self.steps.__exit__()
            if self.steps.metrics:
                trainer.log(self.steps.metrics)

    return Recorder()


def ray_train(ranks: Collection[int] = (0,), **schedule: Any) -> RecordedSteps:
    """What `steps` returns, for the training loop of a worker of Ray Train, which calls no callback for a step.

    These `ranks` record. Captures are written into the run's storage where that is a folder of this machine, otherwise
    into the worker's directory. After the loop, `ray.train.report({…, **steps.metrics})` reports the metric.

    Raises ToolMissing without Ray, and outside of a worker what Ray raises.
    """
    context = _base("get_context", "ray.train")()
    rank, storage = context.get_world_rank(), Path(context.get_storage().experiment_fs_path)
    place = {"output": storage / f"steps-rank-{rank}.pinprof"} if storage.is_dir() else {}
    return _of_rank(rank, ranks, place | schedule)


def _of_rank(rank: int, ranks: Collection[int], schedule: dict[str, Any]) -> RecordedSteps:
    settings: dict[str, Any] = {"name": f"steps-rank-{rank}", "enabled": rank in ranks} | schedule
    return steps(**settings)


def _base(name: str, *modules: str) -> Any:
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except ImportError:
            continue
    raise ToolMissing(f"The package {modules[0]} is not installed.", "Install it, or use `pinprof.steps`.", "recording")
