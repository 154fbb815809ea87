"""Is the result of a call dropped: a statement of its own, or bound to a name that nobody reads?"""

from __future__ import annotations

import libcst as cst

from qlsp.syntax.parse import count_names, walk


def dropped(node: cst.CSTNode, statement: cst.CSTNode | None, function: cst.CSTNode) -> bool:
    """True if certainly nothing reads the result of a call that a statement of a function makes."""
    if isinstance(statement, cst.Expr):
        return statement.value is node
    name = _bound_name(statement) if _value(statement) is node else None
    if name is None or any(_reads_all_names(inner) for inner in walk(function)):
        return False
    if sum(count_names(inner, name) for inner in _parts(function)) == 1:
        return True
    return _overwritten(function, statement, name)


def _value(statement: cst.CSTNode | None) -> cst.CSTNode | None:
    return statement.value if isinstance(statement, (cst.Assign, cst.AnnAssign)) else None


def _bound_name(statement: cst.CSTNode | None) -> str | None:
    """``name`` of a plain assignment to one name."""
    target: cst.CSTNode | None = None
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
    elif isinstance(statement, cst.AnnAssign):
        target = statement.target
    return target.value if isinstance(target, cst.Name) else None


def _reads_all_names(node: cst.CSTNode) -> bool:
    names = ("locals", "vars", "eval", "exec")
    return isinstance(node, (cst.Global, cst.Nonlocal)) or (isinstance(node, cst.Name) and node.value in names)


def _parts(function: cst.CSTNode) -> list[cst.CSTNode]:
    return [function.body] if isinstance(function, (cst.FunctionDef, cst.Lambda)) else [function]


def _overwritten(function: cst.CSTNode, statement: cst.CSTNode | None, name: str) -> bool:
    """Does a later statement of the same block bind the name anew before any reads it?"""
    for block in walk(function):
        if not isinstance(block, cst.IndentedBlock):
            continue
        lines = list(block.body)
        found = [number for number, line in enumerate(lines) if _is_line(line, statement)]
        for line in lines[found[0] + 1 :] if found else []:
            small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
            value = _value(small)
            if value is not None and _bound_name(small) == name:
                return count_names(value, name) == 0
            if count_names(line, name):
                return False
    return False


def _is_line(line: cst.CSTNode, statement: cst.CSTNode | None) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 and line.body[0] is statement
