"""Finding scenarios: the modules of `pinprof.workloads`, then entry points of the same group.

A scenario is a module with `SPEC: ScenarioSpec` and `iterate(ctx: RunContext) -> None`, and where memory is to
outlive an iteration a context manager `prepare(ctx: RunContext)`, which yields `ctx.prepared`. Another package adds one
with

    [project.entry-points."pinprof.workloads"]
    my-scenario = "my_package.my_scenario"
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.metadata
import pkgutil
from collections.abc import Callable, Mapping

from pinprof.base.errors import ScenarioError, UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.scenario.context import RunContext
from pinprof.scenario.spec import ScenarioSpec

GROUP = "pinprof.workloads"


@dataclass(frozen=True)
class Scenario:
    """A loaded scenario."""

    spec: ScenarioSpec
    iterate: Callable[[RunContext], None]
    """Runs one iteration: opens its phases, allocates, moves, computes, verifies, frees."""
    prepare: Callable[[RunContext], contextlib.AbstractContextManager[object]]
    """Makes what all iterations share, before the first one, and gives it back after the last."""


def names() -> list[str]:
    """Names of all scenarios, sorted; imports none of them."""
    return sorted(_places())


def specs() -> list[ScenarioSpec]:
    """The specs of all scenarios, sorted by name."""
    # Looking through all packages for places takes as long as all else.
    return [_loaded(name, place).spec for name, place in sorted(_places().items())]


def load(name: str) -> Scenario:
    """The scenario of that name; UsageError names the nearest when there is none, ScenarioError a broken module."""
    places = _places()
    if name not in places:
        raise UsageError(f"There is no scenario {name!r}.", _nearest(name, places), "unknown-scenario")
    return _loaded(name, places[name])


def _loaded(name: str, place: str) -> Scenario:
    """The scenario of that name in that module; ScenarioError for a broken one."""
    remedy = "Repair the package that provides it, or remove it."
    try:
        module = importlib.import_module(place)
    except Exception as error:
        # A scenario of another package can fail in any way while it is imported.
        reason = f"{type(error).__name__}: {error}"
        raise ScenarioError(f"{place} (scenario {name!r}) cannot be imported: {reason}.", remedy, "scenario") from error
    spec, iterate = getattr(module, "SPEC", None), getattr(module, "iterate", None)
    if not isinstance(spec, ScenarioSpec) or not callable(iterate):
        problem = f"{place} (scenario {name!r}) has no SPEC of type ScenarioSpec or no iterate(ctx)."
        raise ScenarioError(problem, remedy, "scenario")
    return Scenario(spec, iterate, getattr(module, "prepare", _nothing))


def _nothing(_: RunContext) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def resolve(name: str, variant: str | None = None) -> tuple[str, str | None]:
    """The scenario and variant that a name stands for, by itself or as an alias.

    UsageError for a name that is neither, and for a variant that contradicts the alias's own.
    """
    places = _places()
    if name in places:
        return name, variant
    for known, place in places.items():
        # A broken module of another package must not hide the others.
        with contextlib.suppress(ScenarioError):
            spec = _loaded(known, place).spec
            if name in spec.aliases:
                return known, variant
            for one in spec.variants:
                if one.alias == name and variant not in (None, one.name):
                    problem = f"{name} is {known} in its variant {one.name}, not {variant}."
                    raise UsageError(problem, f"Write: pinprof run {known} --variant {variant}.", "variant")
                if one.alias == name:
                    return known, one.name
    raise UsageError(f"There is no scenario {name!r}.", _nearest(name, places), "unknown-scenario")


def _nearest(name: str, places: Mapping[str, str]) -> str:
    """What may have been meant: a variant of that name, or a scenario of a similar one."""
    for known, place in places.items():
        with contextlib.suppress(ScenarioError):
            if any(variant.name == name for variant in _loaded(known, place).spec.variants):
                return f"It is a variant. Run: pinprof run {known} --variant {name}."
    near = difflib.get_close_matches(name, places, 1, cutoff=0.6)
    return f"Did you mean {near[0]!r}?" if near else "`pinprof list` shows them all."


def _places() -> dict[str, str]:
    """Scenario name → module; pinprof's own come first."""
    own = importlib.import_module(GROUP)
    modules = [module.name for module in pkgutil.iter_modules(own.__path__) if not module.ispkg]
    # A module's name has no hyphens, a scenario's has no underscores.
    places = {name.replace("_", "-"): f"{GROUP}.{name}" for name in modules}
    for entry in importlib.metadata.entry_points(group=GROUP):
        places.setdefault(entry.name, entry.module)
    return places
