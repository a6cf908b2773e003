"""Loops that copy rows of one tensor to another one by one: they become one copy (`gathered.py`)."""

from __future__ import annotations

from pinprof.base.errors import packages_named
from pinprof.fix.source import Become, File, Marks, NotCertain, every, keyword

with packages_named():
    import libcst as cst


def gather_rows(file: File, line: int) -> Marks:
    """`for a, b in pairs: target[a].copy_(source[b])`, also with `target[a] = source[b]`."""
    for statement in file.statements(line):
        copied = _rows(statement)
        if copied is None:
            continue
        alone = next((node for node in file.around(statement) if isinstance(node, cst.For)), None)
        lines = alone.body.body if alone else ()
        inner = lines[0].body if len(lines) == 1 and isinstance(lines[0], cst.SimpleStatementLine) else lines
        if alone is None or len(inner) != 1 or inner[0] is not statement or alone.orelse or alone.asynchronous:
            raise NotCertain("The loop does something else as well.")
        target, source, to, at, waits = (file.code(one) for one in copied)
        names = {name.strip("() ") for name in file.code(alone.target).split(",")}
        if not {to, at} <= names or not (target + source).replace(".", "").replace("_", "").isalnum():
            raise NotCertain("The rows are not numbered by the loop alone.")
        if names & {target, source} or _used_outside(file, alone, names):
            raise NotCertain("The loop's names are used outside of it.")
        heads = f"for {file.code(alone.target)} in {file.code(alone.iter)}"
        code = f"_gather({target}, {source}, [({to}, {at}) {heads}], {waits})"
        end = lines[0].trailing_whitespace if isinstance(lines[0], cst.SimpleStatementLine) else None
        return {alone: _become(code, end)}
    return {}


def _rows(statement: cst.BaseSmallStatement) -> tuple[cst.BaseExpression, ...] | None:
    """Target, source, their rows' names, and `non_blocking` of a statement that copies a row."""
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        sides: tuple[cst.BaseExpression, ...] = (statement.targets[0].target, statement.value)
        waits: cst.BaseExpression = cst.Name("False")
    elif isinstance(statement, cst.Expr) and isinstance(call := statement.value, cst.Call):
        method = call.func
        named = [one.keyword.value for one in call.args if one.keyword]
        if not isinstance(method, cst.Attribute) or method.attr.value != "copy_" or not call.args:
            return None
        if named not in ([], ["non_blocking"]) or len(call.args) != len(named) + 1:
            return None
        sides = (method.value, call.args[0].value)
        waits = keyword(call, "non_blocking") or cst.Name("False")
    else:
        return None
    rows = [_row(side) for side in sides]
    plain = [isinstance(one, cst.Subscript) and isinstance(one.value, cst.Name | cst.Attribute) for one in sides]
    if None in rows or not all(plain):
        return None
    return (sides[0].value, sides[1].value, rows[0], rows[1], waits)  # type: ignore[attr-defined,return-value]


def _row(side: cst.BaseExpression) -> cst.Name | None:
    """`k` of `x[k]`."""
    if not isinstance(side, cst.Subscript) or len(side.slice) != 1 or not isinstance(side.slice[0].slice, cst.Index):
        return None
    index = side.slice[0].slice.value
    return index if isinstance(index, cst.Name) else None


def _used_outside(file: File, loop: cst.For, names: set[str]) -> bool:
    """Whether something reads a loop's names after it, but for other loops that bind them."""
    bound = [node for node in every(loop.target) if isinstance(node, cst.Name)]
    others = [use for name in bound for use in file.uses(name) if loop not in list(file.around(use))]
    return len(bound) != len(names) or any(not _bound(file, use) for use in others)


def _bound(file: File, use: cst.Name) -> bool:
    """Whether a name is read in another loop, or above it, that binds it."""
    loops = [node for node in file.around(use) if isinstance(node, cst.For)]
    return any(isinstance(node, cst.Name) and node.value == use.value for loop in loops for node in every(loop.target))


def _become(code: str, end: cst.TrailingWhitespace | None) -> Become:
    def become(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.For)
        line = cst.SimpleStatementLine([cst.Expr(cst.parse_expression(code))], leading_lines=node.leading_lines)
        return line.with_changes(trailing_whitespace=end) if end is not None else line

    return become
