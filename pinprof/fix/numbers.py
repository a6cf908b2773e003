"""Numbers that a loop reads from the GPU in every step, which then waits: they are kept there until they are used.

Certain are `numbers.append(x.item())` and `total += x.item()`, also with `float(x)`, where the list or the sum has a
name of its own, and `return x.item()` of a function that only the file calls. Every other use reads what waits
(`inserted/kept_numbers.py`). A list that something else may hold while the loop goes on, and all other reads, stay as
they are, with the reason.
"""

from __future__ import annotations

import re

from pinprof.base.errors import packages_named
from pinprof.fix.source import Become, File, Marks, NotCertain, bare, become, called, has_comment, last_name

with packages_named():
    import libcst as cst

SEES = re.compile(r"\b(locals|globals|vars|exec|eval)\(|__all__")
"""What may see a name without naming it."""
_READERS = frozenset({"len", "sum", "min", "max", "print", "sorted", "list", "tuple", "str", "repr", "any", "all"})
"""Functions that keep no list they are given."""
_MODULES = frozenset({"np", "numpy", "math", "statistics", "torch", "json"})


def keep_numbers(file: File, line: int) -> Marks:
    """What changes for a number that a line reads."""
    reads = [node for node in file.expressions(line) if isinstance(node, cst.Call) and _value(node) is not None]
    outer = [read for read in reads if not any(around in reads for around in file.around(read))]
    if not outer:
        return {}
    if seen := SEES.search(file.text):
        raise NotCertain(f"The file has {seen[0].rstrip('(')}, which may see numbers that are not read yet.")
    file.no_copies_unwaited()
    return _shown(file, _Waiting(file).all_of(outer[0]))


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


def _later(node: cst.CSTNode) -> cst.CSTNode:
    value = _value(node)
    assert value is not None
    return called("_later", bare(value[0]), cst.Name(value[1]))


class _Waiting:
    """Follows what becomes of numbers that wait, up to where something uses them."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._marks: dict[cst.CSTNode, Become] = {}
        self._done: set[object] = set()

    def all_of(self, read: cst.Call) -> dict[cst.CSTNode, Become]:
        """All that changes where a read waits."""
        self._marks[read] = _later
        self._passed(read)
        return self._marks

    def _passed(self, node: cst.BaseExpression) -> None:
        """Where the value of an expression goes, which is a number that may wait."""
        file, parent = self._file, self._file.parent(node)
        while isinstance(parent, cst.IfExp) and parent.test is not node:
            node, parent = parent, file.parent(parent)
        if isinstance(parent, cst.AugAssign):
            self._sum(parent)
        elif isinstance(parent, cst.Return):
            self._returned(parent)
        elif isinstance(parent, cst.Arg) and isinstance(call := file.parent(parent), cst.Call) and _list_of(file, call):
            self._list(call)
        else:
            code = file.code(node)
            raise NotCertain(
                f"{code} is used at once: only what is appended to a list, added to a sum or returned can wait."
            )

    def _sum(self, statement: cst.AugAssign) -> None:
        """`total += x.item()`."""
        name, file = statement.target, self._file
        if not isinstance(name, cst.Name) or not isinstance(statement.operator, cst.AddAssign):
            raise NotCertain(f"{file.code(name)} is no name of its own, or not a plain sum.")
        self._marks[statement] = _added
        bound = file.assignments(name)
        if not self._first(bound):
            return
        _own(file, name)
        targets = {name}
        for one in bound:
            if isinstance(given := file.parent(one.node), cst.AugAssign):
                self._marks[given] = _added
                targets.add(given.target)  # type: ignore[arg-type]
                if not isinstance(given.operator, cst.AddAssign):
                    raise NotCertain(f"{name.value} is more than a sum, in line {file.line(given)}.")
            elif not isinstance(bound_value(file, one.node), cst.Integer | cst.Float):
                raise NotCertain(f"{name.value} gets something else than a number, in line {file.line(one.node)}.")
        for use in file.uses(name):
            if use not in targets:
                self._marks[use] = lambda node: called("_number", node)  # type: ignore[arg-type]

    def _first(self, key: object) -> bool:
        """Whether a name is met for the first time."""
        key = id(key[0]) if isinstance(key, list) else key
        first = key not in self._done
        self._done.add(key)
        return first

    def _list(self, call: cst.Call) -> None:
        """`numbers.append(x.item())`."""
        name, file = _list_of(self._file, call), self._file
        assert name is not None
        self._marks[call] = _appended
        bound = file.assignments(name)
        if not self._first(bound):
            return
        _own(file, name)
        if not all(_fresh(bound_value(file, one.node)) for one in bound):
            raise NotCertain(f"{name.value} may be a list that has another name as well.")
        uses = file.uses(name)
        appends = [use for use in uses if _append_of(file, use) is not None]
        for use in uses:
            if use in appends:
                self._marks[_append_of(file, use)] = _appended  # type: ignore[index]
                continue
            if not _only_reads(file, use) and not _is_last(file, use, appends):
                where = f"from line {file.line(use)} on"
                raise NotCertain(f"Something else may hold the list {name.value} {where}, while numbers are appended.")
            self._marks[use] = lambda node: called("_numbers", node)  # type: ignore[arg-type]

    def _returned(self, statement: cst.Return) -> None:
        """A function's result: wherever the file calls the function."""
        file = self._file
        function = next(one for one in file.around(statement) if isinstance(one, cst.FunctionDef))
        if not self._first(function):
            return
        owner = next((one for one in file.around(function) if isinstance(one, cst.ClassDef | cst.FunctionDef)), None)
        name = function.name.value
        if isinstance(owner, cst.ClassDef) or function.asynchronous or function.decorators or _yields(function):
            raise NotCertain(f"Who calls {name} and gets the number is not certain.")
        if owner is None and not file.main:
            raise NotCertain(f"Other files may call {name} and get the number.")
        if len(file.assignments(function.name)) != 1:
            raise NotCertain(f"{name} is bound more than once.")
        for use in file.uses(function.name):
            call = file.parent(use)
            if not isinstance(call, cst.Call) or call.func is not use:
                raise NotCertain(f"{name} is passed on in line {file.line(use)}.")
            self._called(call)

    def _called(self, call: cst.Call) -> None:
        """A call whose result may wait: it is read, unless it can go on waiting."""
        file, parent = self._file, self._file.parent(call)
        if isinstance(parent, cst.Expr):
            return
        comprehension = isinstance(parent, cst.GeneratorExp | cst.ListComp) and parent.elt is call
        argument = file.parent(parent) if comprehension else None
        summed = file.parent(argument) if isinstance(argument, cst.Arg) else None
        if isinstance(summed, cst.Call) and file.code(summed.func) == "sum" and len(summed.args) == 1:
            self._marks[summed.func] = become(cst.Name("_sum"))
            return
        before = dict(self._marks), set(self._done)
        try:
            self._passed(call)
        except NotCertain:
            self._marks, self._done = before
            self._marks[call] = lambda node: called("_number", node)  # type: ignore[arg-type]


def _yields(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Yield) or any(map(_yields, node.children))


def _added(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.AugAssign)
    made = called("_add", node.target, bare(node.value))
    return cst.Assign([cst.AssignTarget(node.target)], made, semicolon=node.semicolon)


def _list_of(file: File, call: cst.Call) -> cst.Name | None:
    """The name of the list that a call appends to as a statement."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "append" or len(call.args) != 1:
        return None
    name = call.func.value
    return name if isinstance(name, cst.Name) and isinstance(file.parent(call), cst.Expr) else None


def _append_of(file: File, use: cst.Name) -> cst.Call | None:
    """The call that appends to the list of a name."""
    call = file.parent(file.parent(use))
    return call if isinstance(call, cst.Call) and _list_of(file, call) is use else None


def _appended(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    assert isinstance(node.func, cst.Attribute)
    return called("_append", node.func.value, bare(node.args[0].value))


def _fresh(value: cst.BaseExpression | None) -> bool:
    """Whether an expression makes a list that has no other name."""
    if isinstance(value, cst.Call):
        method = isinstance(value.func, cst.Attribute) and value.func.attr.value in ("tolist", "copy")
        return method or (isinstance(value.func, cst.Name) and value.func.value in ("list", "sorted"))
    return isinstance(value, cst.List | cst.ListComp)


def _own(file: File, name: cst.Name) -> None:
    """NotCertain where a name is not used by its own function, or by a module, alone."""
    inner = (
        one for one in file.around(file.assignments(name)[0].node) if isinstance(one, cst.FunctionDef | cst.ClassDef)
    )
    if isinstance(next(inner, None), cst.ClassDef):
        raise NotCertain(f"{name.value} belongs to a class.")


def bound_value(file: File, node: cst.CSTNode) -> cst.BaseExpression | None:
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
    return (
        values[at].value
        if at < len(values) and not any(isinstance(one, cst.StarredElement) for one in values)
        else None
    )


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
    """Whether nothing is appended any more after a use: it returns the list, or follows all loops that append.

    A list that outlives its function is appended to when the function runs again.
    """
    function = _function(file, use)
    if function is not None and getattr(file.assignments(use)[0].scope, "node", None) is not function:
        return False
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
