"""The hot tree in the terminal: one line per run of calls without a fork."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Group
from rich.text import Text

from pinprof.analyze.results import EventResult
from pinprof.report.data import Shared, share_of
from pinprof.report.names import shortened_place
from pinprof.report.sections.causes.hot_tree import HotTree
from pinprof.report.terminal.layout import leaf_style

_TREE_SHARE, _TREE_DEPTH, _TREE_LINES = 0.03, 12, 30
"""Functions from this share on are shown, to this indent, in at most this number of lines."""

_SAME_WEIGHT = 0.9
"""A callee with this part of its caller's weight continues the line."""

_TREE_PURITY = 50
"""A node names its leading cause from this percentage on."""


def hot_tree_text(shared: Shared, tree: HotTree, event: EventResult, width: int) -> Group:
    """The heavy part of the tree, one line per run of calls without a fork."""
    lines, names = [], shared.flame.names if shared.flame else ()
    for run, depth in _runs(tree):
        share = share_of(event, int(tree.total_weight[run[0]]))
        leaf, purity = int(tree.leaf[run[-1]]), int(tree.purity[run[-1]])
        named = Text()
        if leaf >= 0 and purity >= _TREE_PURITY:
            key = shared.causes[leaf].key
            named = Text(f"  {key}" + (f" {purity} %" if purity < 100 else ""), leaf_style(key))
        room = max(width - 2 * depth - 12 - len(named), 12)
        run_names = [names[tree.name[node]] for node in run]
        lines.append(Text(f"{share:>6}  {'  ' * depth}{_chain(run_names, room)}") + named)
        if len(lines) == _TREE_LINES:
            break
    return Group(*lines)


def _chain(names: list[str], room: int) -> str:
    """Calls joined by `›`, repeated names once; where they do not fit, the innermost ones, after the outermost one."""
    distinct = [name for index, name in enumerate(names) if index == 0 or name != names[index - 1]]
    shown = [shortened_place(name, room if len(distinct) == 1 else room - len("… › ")) for name in distinct]
    if len(text := " › ".join(shown)) <= room:
        return text
    tail = [shown[-1]]
    head = [shown[0]] if len(" › ".join([shown[0], "…", *tail])) <= room else []
    for name in reversed(shown[1:-1]):
        if len(" › ".join([*head, "…", name, *tail])) > room:
            break
        tail.insert(0, name)
    return " › ".join([*head, *(["…"] if len(head) + len(tail) < len(shown) else []), *tail])


def _runs(tree: HotTree) -> Iterator[tuple[list[int], int]]:
    """(nodes from caller to callee, indent): a run goes on while one callee has nearly all of its caller's weight."""
    total = tree.total_weight
    heavy = np.flatnonzero(total >= _TREE_SHARE * int(total[0]))
    children: dict[int, list[int]] = {}
    for node in heavy[1:].tolist():
        children.setdefault(int(tree.parent[node]), []).append(node)
    pending = [(child, 0) for child in reversed(children.get(0, []))]
    while pending:
        node, depth = pending.pop()
        run = [node]
        while len(below := children.get(run[-1], [])) == 1 and total[below[0]] >= _SAME_WEIGHT * total[node]:
            run.append(below[0])
        yield run, depth
        if depth < _TREE_DEPTH:
            pending += [(child, depth + 1) for child in reversed(below)]
