"""Values that a step reads from the GPU and few steps use: they are read where they are used.

Certain are `value = x.item()` (also `.cpu()`, `.numpy()`, `float(x)`, `numpy.asarray(x)`, `jax.device_get(x)` and the
like) before an `if` in whose block alone the value is used, and at the end of a loop after which alone it is used. What
stands between calls nothing, so the value is the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from pinprof.base.errors import packages_named
from pinprof.fix.numbers import SEES, bound_value
from pinprof.fix.source import Become, File, Marks, NotCertain, every

with packages_named():
    import libcst as cst
    from libcst.metadata import ClassScope, GlobalScope

_READS = frozenset({"item", "cpu", "numpy", "tolist"})
"""Methods that copy to the host, without arguments."""
_PURE = frozenset({"detach", "mean", "sum", "norm", "abs", "flatten", "squeeze"})
"""Methods that change nothing, without arguments."""
_OF_ARRAYS = re.compile(r"\.(item|numpy|tolist|detach|mean|sum|norm|abs|flatten|squeeze)\(|^(float|int)\(")
"""What no module has: its `cpu` moves the module itself."""
_FETCHES = frozenset({"numpy.asarray", "numpy.array", "jax.device_get", "cupy.asnumpy"})
_NUMBERS = frozenset({"float", "int"})
_TESTS = (
    cst.Name, cst.Attribute, cst.BaseNumber, cst.SimpleString, cst.Comparison, cst.ComparisonTarget, cst.Subscript,
    cst.SubscriptElement, cst.Index, cst.BooleanOperation, cst.UnaryOperation, cst.BinaryOperation, cst.BaseCompOp,
    cst.BaseBooleanOp, cst.BaseUnaryOp, cst.BaseBinaryOp, cst.BaseParenthesizableWhitespace, cst.LeftParen,
    cst.RightParen, cst.LeftSquareBracket, cst.RightSquareBracket, cst.Dot, cst.Newline, cst.Comment,
    cst.TrailingWhitespace, cst.EmptyLine,
)  # fmt: skip
"""What a test is made of that calls no function."""


def read_later(file: File, line: int) -> Marks:
    """The reads of a line, and those beside it that can wait as well, move to where their values are used."""
    found = [one for one in file.statements(line) if _read_name(file, one) is not None]
    if not found:
        return {}
    if seen := SEES.search(file.text):
        raise NotCertain(f"The file has {seen[0].rstrip('(')}, which may see values that are not read yet.")
    file.no_copies_unwaited()
    whole = file.parent(found[0])
    block = file.parent(whole)
    if not isinstance(whole, cst.SimpleStatementLine) or not isinstance(block, cst.IndentedBlock | cst.Module):
        return {}
    body = list(block.body)
    at = next(number for number, one in enumerate(body) if one is whole)
    first, end = at, at + 1
    while first and _moves(file, body[first - 1]):
        first -= 1
    while end < len(body) and _moves(file, body[end]):
        end += 1
    if end < len(body) and isinstance(target := body[end], cst.If):
        moved = [one for one in body[first:end] if _only_in(file, one, target)]
        if whole in moved and _calls_nothing(target.test):
            return _Moved(moved).to(target.body, _with_first)
    if end == len(body) and isinstance(loop := file.parent(block), cst.For | cst.While):
        moved = [one for one in body[first:end] if _only_after(file, one, loop)]
        if whole in moved and len(moved) < len(body) and _runs(file, loop):
            return _Moved(moved).to(loop, _followed_by)
    raise NotCertain("The value is used in every step, or where it would be read is not certain.")


def _read_name(file: File, statement: cst.CSTNode) -> cst.Name | None:
    """The name that a statement gives what it reads from the GPU."""
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    name = statement.targets[0].target
    of_array = _OF_ARRAYS.search(file.code(statement.value)) or _fetches(file, statement.value)
    return name if isinstance(name, cst.Name) and of_array and _reads(file, statement.value) else None


def _fetches(file: File, node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and file.qualified(node.func) in _FETCHES


def _reads(file: File, node: cst.BaseExpression) -> bool:
    """Whether an expression reads something from the GPU, and does nothing else."""
    inner = _read(file, node)
    return inner is not None and (_is_pure(file, inner) or _reads(file, inner))


def _read(file: File, node: cst.BaseExpression) -> cst.BaseExpression | None:
    if not isinstance(node, cst.Call):
        return None
    only = node.args[0] if len(node.args) == 1 and not node.args[0].star else None
    if isinstance(node.func, cst.Attribute) and not file.qualified(node.func):
        host = only is not None and only.keyword is None and file.code(only.value) in ('"cpu"', "'cpu'")
        reads = node.func.attr.value in _READS and not node.args
        return node.func.value if reads or (host and node.func.attr.value == "to") else None
    plain = only is not None and only.keyword is None
    number = isinstance(node.func, cst.Name) and node.func.value in _NUMBERS and file.unbound(node.func)
    return only.value if only and plain and (number or _fetches(file, node)) else None


def _is_pure(file: File, node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Call):
        method = node.func
        pure = isinstance(method, cst.Attribute) and method.attr.value in _PURE and not node.args
        return pure and isinstance(method, cst.Attribute) and _pure_or_read(file, method.value)
    if isinstance(node, cst.Attribute):
        return _is_pure(file, node.value)
    if isinstance(node, cst.Subscript):
        return _is_pure(file, node.value) and all(map(_calls_nothing, node.slice))
    return isinstance(node, cst.Name)


def _pure_or_read(file: File, node: cst.BaseExpression) -> bool:
    return _is_pure(file, node) or _reads(file, node)


def _moves(file: File, line: cst.CSTNode) -> bool:
    """Whether a line is a read and nothing else."""
    alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    return alone and _read_name(file, line.body[0]) is not None  # type: ignore[attr-defined]


def _calls_nothing(node: cst.CSTNode) -> bool:
    return all(isinstance(one, _TESTS) for one in every(node))


def _uses(file: File, line: cst.CSTNode) -> list[cst.Name] | None:
    """Where the value of a line is used; None where something else may give or see it."""
    if not _moves(file, line):
        return None
    name = line.body[0].targets[0].target  # type: ignore[attr-defined]
    bound = file.assignments(name)
    scope = bound[0].scope
    if len(bound) != 1 or isinstance(scope, ClassScope) or (isinstance(scope, GlobalScope) and not file.main):
        return None
    own = next((one for one in file.around(line) if isinstance(one, cst.FunctionDef)), None)
    uses = file.uses(name)
    lazy = cst.FunctionDef | cst.Lambda | cst.GeneratorExp
    for use in uses:
        inner = next((one for one in file.around(use) if isinstance(one, lazy)), None)
        if inner is not own:
            return None
    return uses


def _only_in(file: File, line: cst.CSTNode, target: cst.If) -> bool:
    uses = _uses(file, line)
    return bool(uses) and all(target.body in file.around(use) for use in uses or ())


def _only_after(file: File, line: cst.CSTNode, loop: cst.For | cst.While) -> bool:
    """Whether all uses of a line's value follow the loop in its block."""
    uses, block = _uses(file, line), file.parent(loop)
    if not uses or not isinstance(block, cst.IndentedBlock | cst.Module):
        return False
    later = list(block.body)[[one is loop for one in block.body].index(True) + 1 :]
    return all(any(one in later for one in file.around(use)) for use in uses)


def _runs(file: File, loop: cst.For | cst.While) -> bool:
    """Whether a loop certainly runs to the end of its block, at least once: `for … in range(3)` without a way out."""
    leaves = cst.Break | cst.Continue | cst.Return | cst.Yield | cst.Await | cst.Try
    if not isinstance(loop, cst.For) or loop.orelse or loop.asynchronous:
        return False
    if any(isinstance(one, leaves) for one in every(loop.body)):
        return False
    call = loop.iter
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Name) or len(call.args) != 1:
        return False
    return call.func.value == "range" and file.unbound(call.func) and (_constant(file, call.args[0].value) or 0) > 0


def _constant(file: File, node: cst.BaseExpression) -> int | None:
    """The whole number that an expression, or the name that the file gives it once, certainly is."""
    if isinstance(node, cst.Name):
        bound = file.assignments(node)
        value = bound_value(file, bound[0].node) if len(bound) == 1 else None
        if value is None or isinstance(value, cst.Name):
            return None
        node = value
    try:
        found = ast.literal_eval(file.code(node))
    except (ValueError, SyntaxError):
        return None
    return found if isinstance(found, int) else None


class _Moved:
    """Lines that move, with what else changes in them."""

    def __init__(self, lines: Sequence[cst.CSTNode]) -> None:
        self._lines = lines
        self._taken: dict[cst.CSTNode, cst.CSTNode] = {}

    def to(self, target: cst.CSTNode, place: Callable[[cst.CSTNode, Sequence[Any]], Any]) -> Marks:
        """They leave, and `place` puts them to a target further down."""
        marks: dict[cst.CSTNode, Become] = {line: self._take(line) for line in self._lines}
        return {**marks, target: lambda node: place(node, list(self._taken.values()))}

    def _take(self, line: cst.CSTNode) -> Become:
        def become(node: cst.CSTNode) -> cst.RemovalSentinel:
            self._taken[line] = node
            return cst.RemoveFromParent()

        return become


def _with_first(block: cst.CSTNode, moved: Sequence[cst.SimpleStatementLine]) -> cst.CSTNode:
    if isinstance(block, cst.IndentedBlock):
        return block.with_changes(body=[*moved, *block.body])
    assert isinstance(block, cst.SimpleStatementSuite)
    line = cst.SimpleStatementLine(block.body, trailing_whitespace=block.trailing_whitespace)
    return cst.IndentedBlock([*moved, line])


def _followed_by(loop: cst.CSTNode, moved: Sequence[cst.CSTNode]) -> cst.FlattenSentinel[cst.CSTNode]:
    return cst.FlattenSentinel([loop, *moved])
