"""Numbers that a loop reads from the GPU in every step, which then waits: they are kept there until they are used.

Two forms are certain: `numbers.append(x.item())` and `total += x.item()`, also with `float(x)`, where the list or the
sum has a name of its own. Every other use of the name reads what waits (`kept_numbers.py`). A list that something else
may hold while the loop goes on, and all other reads, stay as they are, with the reason.
"""

from __future__ import annotations

import re

from pinprof.base.errors import packages_named
from pinprof.fix.source import Become, File, Marks, NotCertain, called, has_comment, last_name

with packages_named():
    import libcst as cst

_SEES = re.compile(r"\b(locals|globals|vars|exec|eval)\(|__all__")
"""What may see a name without naming it."""
_READERS = frozenset({"len", "sum", "min", "max", "print", "sorted", "list", "tuple", "str", "repr", "any", "all"})
"""Functions that keep no list they are given."""
_MODULES = frozenset({"np", "numpy", "math", "statistics"})


def keep_numbers(file: File, line: int) -> Marks:
    """What changes for a number that a line reads."""
    reads = [node for node in file.expressions(line) if isinstance(node, cst.Call) and _value(node) is not None]
    if not reads:
        return {}
    if seen := _SEES.search(file.text):
        raise NotCertain(f"The file has {seen[0].rstrip('(')}, which may see numbers that are not read yet.")
    for read in reads:
        parent = file.parent(read)
        if isinstance(parent, cst.AugAssign):
            return _sum(file, parent)
        call = file.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(call, cst.Call) and _list_of(file, call) is not None:
            return _list(file, call)
    code = file.code(reads[0])
    raise NotCertain(f"What {code} reads is used at once: only where it is appended to a list or added to a sum can it wait.")


def _value(node: cst.CSTNode) -> tuple[cst.BaseExpression, str] | None:
    """The tensor that an expression reads as a number, and the function that does it."""
    if not isinstance(node, cst.Call):
        return None
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "item" and not node.args:
        return node.func.value, "_item"
    if isinstance(node.func, cst.Name) and node.func.value == "float" and len(node.args) == 1:
        only = node.args[0]
        plain = not only.keyword and not only.star and not isinstance(only.value, cst.BaseNumber | cst.BaseString)
        inner = _value(only.value) if plain else None
        return (inner[0] if inner else only.value, "float") if plain else None
    return None


def _sum(file: File, statement: cst.AugAssign) -> Marks:
    """`total += x.item()`."""
    name, value = statement.target, _value(statement.value)
    if not isinstance(name, cst.Name) or not isinstance(statement.operator, cst.AddAssign) or value is None:
        raise NotCertain(f"{file.code(statement.target)} is no name of its own, or not a plain sum.")
    _own(file, name)
    marks: dict[cst.CSTNode, Become] = {}
    for one in file.assignments(name):
        bound = file.parent(one.node)
        changes = isinstance(bound, cst.AugAssign)
        if changes and isinstance(bound.operator, cst.AddAssign) and _value(bound.value):
            marks[bound] = _added
        elif changes or not _number(file, one.node):
            raise NotCertain(f"{name.value} gets something else than numbers in line {file.line(bound)}.")
    targets = {bound.target for bound in marks if isinstance(bound, cst.AugAssign)}
    for use in file.uses(name):
        if use not in targets:
            marks[use] = lambda node: called("_number", node)  # type: ignore[arg-type]
    return _shown(file, marks)


def _added(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.AugAssign)
    value = _value(node.value)
    assert value is not None
    made = called("_add", node.target, value[0], cst.parse_expression(value[1]))  # type: ignore[arg-type]
    return cst.Assign([cst.AssignTarget(node.target)], made, semicolon=node.semicolon)


def _list(file: File, call: cst.Call) -> Marks:
    """`numbers.append(x.item())`."""
    name = _list_of(file, call)
    assert name is not None
    _own(file, name)
    if len(bound := file.assignments(name)) != 1 or not _empty(file, bound[0].node):
        raise NotCertain(f"{name.value} is not bound once, to an empty list.")
    uses = file.uses(name)
    appends = {use: found for use in uses if (found := _append(file, use)) is not None}
    marks: dict[cst.CSTNode, Become] = dict.fromkeys(appends.values(), _appended)
    for use in uses:
        if use in appends:
            continue
        if not _only_reads(file, use) and not _is_last(file, use, list(appends)):
            where = f"line {file.line(use)}"
            raise NotCertain(f"Something else may hold the list {name.value} from {where} on, while numbers are appended.")
        marks[use] = lambda node: called("_numbers", node)  # type: ignore[arg-type]
    return _shown(file, marks)


def _list_of(file: File, call: cst.Call) -> cst.Name | None:
    """The name of the list that a call appends to as a statement."""
    fits = isinstance(call.func, cst.Attribute) and call.func.attr.value == "append" and len(call.args) == 1
    fits = fits and isinstance(file.parent(call), cst.Expr) and isinstance(call.func.value, cst.Name)  # type: ignore[union-attr]
    return call.func.value if fits else None  # type: ignore[union-attr,return-value]


def _append(file: File, use: cst.Name) -> cst.Call | None:
    """The call that appends a number which is read, of whose list this is the name."""
    call = file.parent(file.parent(use))
    fits = isinstance(call, cst.Call) and _list_of(file, call) is use and _value(call.args[0].value) is not None
    return call if fits else None  # type: ignore[return-value]


def _appended(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    assert isinstance(node.func, cst.Attribute)
    value = _value(node.args[0].value)
    assert value is not None
    return called("_append", node.func.value, value[0], cst.parse_expression(value[1]))


def _own(file: File, name: cst.Name) -> None:
    """NotCertain where a name is not used by its own function, or by a module, alone."""
    inner = (one for one in file.around(file.assignments(name)[0].node) if isinstance(one, cst.FunctionDef | cst.ClassDef))
    if isinstance(next(inner, None), cst.ClassDef):
        raise NotCertain(f"{name.value} belongs to a class.")


def _bound_value(file: File, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The expression that a plain assignment gives to a name, also to one of several: `a, b = [], []`."""
    target = file.parent(node)
    at = None
    if isinstance(target, cst.Element) and isinstance(several := file.parent(target), cst.Tuple):
        at = [one.value for one in several.elements].index(node)  # type: ignore[arg-type]
        target = file.parent(several)
    if isinstance(target, cst.AnnAssign):
        return target.value
    if not isinstance(target, cst.AssignTarget) or not isinstance(given := file.parent(target), cst.Assign):
        return None
    if at is None:
        return given.value if len(given.targets) == 1 or isinstance(given.value, cst.BaseNumber) else None
    values = given.value.elements if isinstance(given.value, cst.Tuple) else []
    return values[at].value if at < len(values) and not any(isinstance(one, cst.StarredElement) for one in values) else None


def _empty(file: File, node: cst.CSTNode) -> bool:
    value = _bound_value(file, node)
    return isinstance(value, cst.List) and not value.elements


def _number(file: File, node: cst.CSTNode) -> bool:
    """Whether an assignment gives a number, or something computed from names that are read as numbers."""
    value = _bound_value(file, node)
    return isinstance(value, cst.Integer | cst.Float)


def _only_reads(file: File, use: cst.Name) -> bool:
    """Whether nothing else can hold the list after this use."""
    parent = file.parent(use)
    if isinstance(parent, cst.Subscript):
        return parent.value is use
    if isinstance(parent, cst.Attribute):
        return isinstance(call := file.parent(parent), cst.Call) and call.func is parent
    if isinstance(parent, cst.Arg) and isinstance(call := file.parent(parent), cst.Call):
        function = call.func
        of_module = isinstance(function, cst.Attribute) and last_name(function.value) in _MODULES
        return of_module or (isinstance(function, cst.Name) and function.value in _READERS)
    held = cst.BinaryOperation | cst.Comparison | cst.FormattedStringExpression | cst.UnaryOperation
    return isinstance(parent, held | cst.ComparisonTarget)


def _is_last(file: File, use: cst.Name, appends: list[cst.Name]) -> bool:
    """Whether nothing is appended any more after a use: it returns the list, or follows all loops that append."""
    function = _function(file, use)
    if function is None and any(_function(file, one) is not None for one in appends):
        return False
    if any(_function(file, one) is not function for one in appends):
        return False
    if isinstance(file.parent(use), cst.Return):
        return not any(isinstance(node, cst.Try) for node in file.around(use))
    loops = [node for node in file.around(use) if isinstance(node, cst.For | cst.While)]
    if any(loop in list(file.around(one)) for loop in loops for one in appends):
        return False
    return all(file.line(one) < file.line(use) for one in appends)


def _function(file: File, node: cst.CSTNode) -> cst.CSTNode | None:
    inner = cst.FunctionDef | cst.Lambda | cst.GeneratorExp | cst.ListComp | cst.SetComp | cst.DictComp
    return next((one for one in file.around(node) if isinstance(one, inner)), None)


def _shown(file: File, marks: dict[cst.CSTNode, Become]) -> Marks:
    """The marks; NotCertain where a text would show the changed code, or a comment would be lost."""
    for node in marks:
        for around in file.around(node):
            if isinstance(around, cst.FormattedStringExpression) and around.equal:
                raise NotCertain("A text shows the name of what it prints.")
            if isinstance(around, cst.Del):
                raise NotCertain("The name is deleted.")
        if has_comment(node):
            raise NotCertain("A comment stands inside the expression.")
    return marks
