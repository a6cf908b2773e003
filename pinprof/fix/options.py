"""Options of libraries: the call or the dictionary that has them gets one more entry."""

from __future__ import annotations

import re
from collections.abc import Callable

from pinprof.base.errors import packages_named
from pinprof.fix.source import Become, File, Marks, NotCertain, keyword, last_name, with_keyword

with packages_named():
    import libcst as cst

_RANDOM = re.compile(r"rand|shuffle\s*=\s*True|[Dd]ropout|seed")


def option(called: str, name: str, positional: int = 0, needs: str = "") -> Callable[[File, int], Marks]:
    """A transformation that gives the call of a name in the file an option, `True`.

    `positional` arguments may stand before it; `needs` is another option without which it means nothing.
    """

    def mark(file: File, line: int) -> Marks:
        calls = [node for node in file.nodes() if isinstance(node, cst.Call) and last_name(node.func) == called]
        calls = [node for node in calls if keyword(node, needs) is not None] if needs else calls
        if len(calls) > 1:
            calls = [call for call in calls if on_line(file, line, call)] or calls
        if len(calls) > 1:
            raise NotCertain(
                f"The file calls {called} {len(calls)} times, and the recording does not say which is meant."
            )
        for call in calls:
            if any(one.star for one in call.args) or sum(not one.keyword for one in call.args) > positional:
                raise NotCertain(f"The options of {called} are given without their names.")
            if file.code(keyword(call, name) or cst.Name("False")) == "True":
                raise NotCertain(f"{called} has {name}=True already.")
            if name.endswith("persistent_workers") and (seen := _RANDOM.search(file.text)):
                raise NotCertain(f"The file has {seen[0]}: workers that stay may draw other random numbers.")
        return dict.fromkeys(calls, with_keyword(name, "True"))

    return mark


def on_line(file: File, line: int, call: cst.Call) -> bool:
    """Whether a line holds a call, or the name that it is given to."""
    statement = file.parent(call)
    target = file.code(statement.targets[0].target) if isinstance(statement, cst.Assign) else None
    nodes = list(file.expressions(line))
    return call in nodes or any(
        isinstance(node, cst.Name | cst.Attribute) and file.code(node) == target for node in nodes
    )


def offload_pinned(file: File, _: int) -> Marks:
    """DeepSpeed's `"offload_optimizer": {"device": "cpu"}`, and `offload_param`, get `"pin_memory": True`."""
    marks: dict[cst.CSTNode, Become] = {}
    for node in file.nodes() if "offload_" in file.text else ():
        if not isinstance(node, cst.DictElement) or _key(node) not in ("offload_optimizer", "offload_param"):
            continue
        entries = node.value.elements if isinstance(node.value, cst.Dict) else []
        given = {_key(one): file.code(one.value).strip("\"'") for one in entries}
        if None in given or given.get("device") != "cpu":
            raise NotCertain(f"{_key(node)} is no dictionary with the device cpu.")
        if given.get("pin_memory") not in (None, "False"):
            raise NotCertain(f"{_key(node)} has pin_memory already.")
        marks[node.value] = _with_pin_memory
    return marks


def _key(node: cst.BaseDictElement) -> str | None:
    """The text that an entry of a dictionary has as its key."""
    plain = isinstance(node, cst.DictElement) and isinstance(node.key, cst.SimpleString)
    return str(node.key.evaluated_value) if plain else None  # type: ignore[attr-defined]


def _with_pin_memory(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Dict)
    entries = list(node.elements)
    for at, one in enumerate(entries):
        if _key(one) == "pin_memory":
            entries[at] = one.with_changes(value=cst.Name("True"))
            return node.with_changes(elements=entries)
    end, between = entries[-1].comma, entries[0].comma
    if len(entries) == 1:
        between = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    entries[-1] = entries[-1].with_changes(comma=between)
    return node.with_changes(
        elements=[*entries, cst.DictElement(cst.SimpleString('"pin_memory"'), cst.Name("True"), comma=end)]
    )


def weights_pinned(file: File, _: int) -> Marks:
    """Accelerate's `cpu_offload(model)` keeps pinned weights, instead of those that the model has."""
    marks: dict[cst.CSTNode, Become] = {}
    for node in file.nodes():
        names = ("accelerate.cpu_offload", "accelerate.big_modeling.cpu_offload")
        if not isinstance(node, cst.Call) or file.qualified(node.func) not in names:
            continue
        first = node.args[0] if node.args else None
        named = any(one.star or (one.keyword and one.keyword.value == "state_dict") for one in node.args)
        if first is None or first.keyword or not isinstance(first.value, cst.Name) or named or len(node.args) > 3:
            raise NotCertain("cpu_offload has weights of its own, or a model without a name.")
        model = first.value.value
        pinned = f"{{name: tensor.cpu().pin_memory() for name, tensor in {model}.state_dict().items()}}"
        marks[node] = with_keyword("state_dict", pinned)
    return marks
