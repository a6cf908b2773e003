"""A Python file whose code changes: its tree, what its names are bound to, and the change written into its text.

Everything that no transformation marks stays byte for byte.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pinprof.base.errors import packages_named

with packages_named():
    import libcst as cst
    from libcst.metadata import (
        Assignment,
        BuiltinAssignment,
        MetadataWrapper,
        ParentNodeProvider,
        PositionProvider,
        QualifiedNameSource,
        ScopeProvider,
    )

Become = Callable[[cst.CSTNode], "cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]"]
"""What a marked node becomes, whose children may have changed already."""
Marks = Mapping[cst.CSTNode, Become]
_PRIVATE = re.compile(r"(?<![\w.])_[a-zA-Z]\w*")
_UNWAITED = re.compile(r"non_blocking(?!\s*=\s*False)")
_REWRITTEN = re.compile(
    r"\.pin_memory\(|copy_\(|\.to\(\s*[\"']cpu"
    r"|\b(empty|zeros|ones|full|rand\w*|arange|tensor)(_like)?\((?:[^()]|\([^()]*\))*pin_memory"
)
"""What makes memory whose use has to wait for a copy: pinned, or a copy's target. A loader's batches have their own."""
_HARMLESS = frozenset(
    {
        "no_grad",
        "inference_mode",
        "enable_grad",
        "staticmethod",
        "classmethod",
        "property",
        "contextmanager",
        "override",
    }
)
"""Decorators that neither read nor compile a function's code."""
MARKER = "# ---- inserted"


class NotCertain(Exception):
    """Code stays as it is; the text is a sentence that says why."""


class File:
    """A Python file with its tree; NotCertain where its text is none that can be written back."""

    def __init__(self, text: str, *, main: bool = True) -> None:
        """`main`: the file is the main program, so no other file imports its names."""
        self.main = main
        try:
            self.tree = ast.parse(text)
            self._wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        except (SyntaxError, ValueError, RecursionError, cst.ParserSyntaxError) as error:
            raise NotCertain("The file's syntax is unknown to LibCST or to this Python.") from error
        self.text = text
        self._positions = self._wrapper.resolve(PositionProvider)
        self._parents = self._wrapper.resolve(ParentNodeProvider)

    @cached_property
    def _scopes(self):  # type: ignore[no-untyped-def]  # LibCST names no type for it
        return self._wrapper.resolve(ScopeProvider)

    def changed(self, marks: Marks, inserted: Sequence[str]) -> str:
        """The text with marked nodes changed and lines of `inserted/` added; NotCertain where it would not be valid."""
        try:
            module = self._wrapper.module.visit(_Marked(marks))
            assert isinstance(module, cst.Module)
            for name in dict.fromkeys(inserted):
                module = self._with_inserted(module, name)
            text = module.code
            compile(text, "changed", "exec", dont_inherit=True)
        except (SyntaxError, cst.CSTValidationError) as error:
            raise NotCertain("The changed line would not be valid Python.") from error
        return text

    def qualified(self, node: cst.CSTNode) -> str:
        """`numpy.memmap` of `np.memmap` or `memmap`, where an import gives a name, and nothing else; else empty."""
        first = node
        while isinstance(first, cst.Attribute):
            first = first.value
        scope = self._scopes.get(node) if isinstance(first, cst.Name) else None
        names = list(scope.get_qualified_names_for(node)) if scope else []
        return names[0].name if len(names) == 1 and names[0].source is QualifiedNameSource.IMPORT else ""

    def imports(self, library: str) -> bool:
        """Whether the file imports a module, or something of it, anywhere."""
        names = [one.name for node in ast.walk(self.tree) if isinstance(node, ast.Import) for one in node.names]
        names += [node.module or "" for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom)]
        return any(name == library or name.startswith(f"{library}.") for name in names)

    def statements(self, line: int) -> list[cst.BaseSmallStatement]:
        """The simple statements that a line is part of; NotCertain where something else may compile their function."""
        found = []
        for node, place in self._positions.items():
            if isinstance(node, cst.BaseSmallStatement) and place.start.line <= line <= place.end.line:
                found.append(node)
        for node in found:
            for around in self.around(node):
                if isinstance(around, cst.FunctionDef):
                    self._undecorated(around)
        return found

    def expressions(self, line: int) -> Iterator[cst.CSTNode]:
        """The nodes of a line's statements and of its headers of loops and blocks, without lambdas and annotations."""
        for statement in self.statements(line):
            yield from _below(statement)
        for node, place in self._positions.items():
            if isinstance(node, cst.For | cst.With | cst.If | cst.While) and place.start.line == line:
                loop = [node.iter] if isinstance(node, cst.For) else []
                heads = [*node.items] if isinstance(node, cst.With) else loop or [node.test]  # type: ignore[union-attr]
                for head in heads:
                    yield from _below(head)

    def around(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes that a node is in, innermost first."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def parent(self, node: cst.CSTNode) -> cst.CSTNode:
        """The node that a node is in."""
        return self._parents[node]

    def line(self, node: cst.CSTNode) -> int:
        """The line on which a node begins."""
        return int(self._positions[node].start.line)

    def nodes(self) -> Iterator[cst.CSTNode]:
        """All nodes that have a place."""
        return iter(self._positions)

    def lines(self, node: cst.CSTNode) -> range:
        """The lines of a node."""
        place = self._positions[node]
        return range(place.start.line, place.end.line + 1)

    def code(self, node: cst.CSTNode) -> str:
        """A node's text, without its comments' line."""
        return self._wrapper.module.code_for_node(node)

    def assignments(self, name: cst.Name) -> list[Assignment]:
        """Everything that binds a name, in the scope that it belongs to; NotCertain where that is unknown."""
        scope = self._scopes.get(name)
        found = list(scope[name.value]) if scope else []
        if not found or not all(isinstance(one, Assignment) for one in found):
            raise NotCertain(f"Nothing in the file binds {name.value}.")
        return found

    def unbound(self, name: cst.Name) -> bool:
        """Whether nothing in the file binds a name, so that it is Python's own."""
        scope = self._scopes.get(name)
        return scope is not None and all(isinstance(one, BuiltinAssignment) for one in scope[name.value])

    def no_copies_unwaited(self) -> None:
        """NotCertain where a read from the GPU may be what copies that do not block are waited for with."""
        if _UNWAITED.search(self.text) and _REWRITTEN.search(self.text):
            raise NotCertain("A read from the GPU also waits for copies, and the file has some that do not block.")

    def uses(self, name: cst.Name) -> list[cst.Name]:
        """Every place that reads a name, in order; NotCertain where it is used in a way that hides them."""
        nodes = {self._first(access.node) for one in self.assignments(name) for access in one.references}
        return sorted(nodes, key=lambda node: (self.line(node), self._positions[node].start.column))

    def _first(self, node: cst.CSTNode) -> cst.Name:
        while isinstance(node, cst.Attribute):
            node = node.value
        if not isinstance(node, cst.Name):
            raise NotCertain(f"{self.code(node)} is written in a text.")
        return node

    def _undecorated(self, function: cst.FunctionDef) -> None:
        for one in function.decorators:
            called = one.decorator.func if isinstance(one.decorator, cst.Call) else one.decorator
            if last_name(called) not in _HARMLESS:
                name = function.name.value
                raise NotCertain(f"{name} is decorated, so something else may read or compile its code.")

    def _with_inserted(self, module: cst.Module, name: str) -> cst.Module:
        """The module with the lines of `inserted/NAME.py` below its imports, or `above` those that read variables."""
        whole = (Path(__file__).with_name("inserted") / f"{name}.py").read_text("utf-8")
        where, _, text = whole.partition(MARKER)[2].partition("\n")
        if both := sorted(set(_PRIVATE.findall(self.text)) & set(_PRIVATE.findall(text))):
            raise NotCertain(f"The file has the name {both[0]} already.")
        body, at = list(module.body), 0
        while at < len(body) and _stands_first(body[at], first=at == 0):
            at += 1
        while at < len(body) and not where and _imports(body[at]):
            at += 1
        first, *others = cst.parse_module(text).body
        lines = 2 if isinstance(first, cst.FunctionDef | cst.ClassDef) else 1
        above = first.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * lines) if at else first
        return module.with_changes(body=[*body[:at], above, *others, *body[at:]])


class _Marked(cst.CSTTransformer):
    """Replaces marked nodes."""

    def __init__(self, marks: Marks) -> None:
        super().__init__()
        self._marks = marks

    def on_leave(self, original_node, updated_node):  # type: ignore[no-untyped-def]  # as its parent has it
        become = self._marks.get(original_node)
        return become(updated_node) if become else updated_node


def _stands_first(node: cst.CSTNode, *, first: bool) -> bool:
    line = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
    if isinstance(line, cst.Expr):
        return first and isinstance(line.value, cst.SimpleString | cst.ConcatenatedString)
    return isinstance(line, cst.ImportFrom) and isinstance(line.module, cst.Name) and line.module.value == "__future__"


def _imports(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Import | cst.ImportFrom)


def _below(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and those below it, without annotations, texts, and lambdas, which others may compile."""
    if isinstance(node, cst.Annotation | cst.BaseString | cst.Lambda):
        return
    yield node
    for child in node.children:
        yield from _below(child)


def every(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and all below it."""
    yield node
    for child in node.children:
        yield from every(child)


def has_comment(node: cst.CSTNode) -> bool:
    """Whether a comment would be lost with a node."""
    return any(isinstance(one, cst.Comment) for one in every(node))


def last_name(node: cst.BaseExpression) -> str:
    """`cpu` of `x.y.cpu`; a name itself; else empty."""
    return node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""


def called(name: str, *arguments: cst.BaseExpression) -> cst.Call:
    """A call of a name."""
    return cst.Call(cst.Name(name), [cst.Arg(argument) for argument in arguments])


def bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """An argument of a call needs no parentheses, but for those that belong to it."""
    loose = cst.BinaryOperation | cst.Call | cst.Name | cst.Attribute | cst.Subscript
    return node.with_changes(lpar=(), rpar=()) if isinstance(node, loose) else node


def keyword(node: cst.Call, name: str) -> cst.BaseExpression | None:
    """The value of an argument by name; None without it."""
    return next((one.value for one in node.args if one.keyword and one.keyword.value == name), None)


def with_keyword(name: str, value: str) -> Become:
    """A call with an argument by name, which may be there already."""

    def become(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.Call)
        args = list(node.args)
        for at, argument in enumerate(args):
            if argument.keyword and argument.keyword.value == name:
                args[at] = argument.with_changes(value=cst.parse_expression(value))
                return node.with_changes(args=args)
        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        added = cst.Arg(cst.parse_expression(value), cst.Name(name), equal)
        if args and isinstance(args[-1].comma, cst.Comma):  # a call on several lines ends in a comma
            last = args[-1].comma
            args[-1] = args[-1].with_changes(comma=args[-2].comma if len(args) > 1 else last)
            added = added.with_changes(comma=last)
        return node.with_changes(args=[*args, added])

    return become


def become(made: cst.CSTNode | cst.RemovalSentinel) -> Become:
    """Something that does not depend on the node."""
    return lambda _: made
