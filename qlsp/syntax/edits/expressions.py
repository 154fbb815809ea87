"""Questions about an expression and about what takes its value."""

from __future__ import annotations

import libcst as cst

from qlsp.diagnostics import NoFix
from qlsp.syntax.edits.parts import Expression, OperandAt, OperationAt, SlicesAt
from qlsp.syntax.edits.slices import Slices
from qlsp.syntax.names import dotted
from qlsp.syntax.parse import children, walk
from qlsp.syntax.view import At, Key, NodeKey


class Expressions(Slices):
    """Operators and calls taken apart, and where their values go."""

    def operation(self, key: NodeKey) -> OperationAt:
        """The operator, augmented assignment or call with this span id."""
        at = self.view.at(key)
        node = at.node
        if isinstance(node, cst.BinaryOperation):
            operands: tuple[cst.CSTNode, ...] = (node.left, node.right)
        elif isinstance(node, cst.AugAssign):
            operands = (node.target, node.value)
        elif isinstance(node, cst.UnaryOperation):
            operands = (node.expression,)
        elif isinstance(node, cst.Call):
            return self._called(at, node)
        else:
            raise NoFix("neither an operator nor a call")
        sign = At(at.unit, node.operator).text.strip()
        parts = tuple(OperandAt(At(at.unit, each).key, number) for number, each in enumerate(operands))
        return OperationAt(at.place, parts, sign, augmented=isinstance(node, cst.AugAssign))

    def _called(self, at: At, node: cst.Call) -> OperationAt:
        if any(argument.star for argument in node.args):
            raise NoFix("a call with starred arguments")
        operands = []
        for number, argument in enumerate(node.args):
            keyword = argument.keyword.value if argument.keyword is not None else None
            position = number if keyword is None else None
            operands.append(OperandAt(At(at.unit, argument.value).key, position, keyword))
        method = receiver = None
        if isinstance(node.func, cst.Attribute):
            method, receiver = node.func.attr.value, At(at.unit, node.func.value).key
        return OperationAt(at.place, tuple(operands), None, dotted(node.func), method, receiver)

    def below(self, key: NodeKey) -> list[Key]:
        """The expressions inside a node, the outer ones first; not those of a lambda or a comprehension."""
        at = self.view.at(key)
        found: list[Key] = []
        nodes = list(children(at.node))
        while nodes:
            node = nodes.pop()
            if isinstance(node, (cst.Lambda, cst.BaseComp)):
                continue
            if isinstance(node, cst.BaseExpression):
                found.append(At(at.unit, node).key)
            nodes.extend(children(node))
        return found

    def listed(self, key: NodeKey) -> list[Key] | None:
        """The members of a list or a tuple that is written out."""
        at = self.view.at(key)
        if not isinstance(at.node, (cst.List, cst.Tuple)):
            return None
        if any(isinstance(element, cst.StarredElement) for element in at.node.elements):
            return None
        return [At(at.unit, element.value).key for element in at.node.elements]

    def members(self, key: NodeKey) -> tuple[Expression, ...] | None:
        """The members of a list or tuple, the values of a dict; None for other expressions and with ``*``."""
        at = self.view.at(key)
        if isinstance(at.node, (cst.List, cst.Tuple)):
            plain = [element.value for element in at.node.elements if isinstance(element, cst.Element)]
        elif isinstance(at.node, cst.Dict):
            plain = [element.value for element in at.node.elements if isinstance(element, cst.DictElement)]
        else:
            return None
        whole = len(plain) == len(at.node.elements)
        return tuple(self._expression(At(at.unit, node)) for node in plain) if whole else None

    def sliced(self, key: NodeKey) -> SlicesAt:
        """An assignment to one slice of a name, up to an index or from one on, along one axis."""
        at = self.view.at(key)
        target = self.view.parent(at)
        statement = self.view.parent(At(at.unit, target)) if target is not None else None
        if not isinstance(at.node, cst.Subscript) or not isinstance(statement, cst.Assign):
            raise NoFix("no assignment to a part")
        name = dotted(at.node.value)
        texts = [At(at.unit, element).text.rstrip(", ") for element in at.node.slice]
        cut = [number for number, text in enumerate(texts) if text not in (":", "...")]
        if name is None or "." in name or len(statement.targets) != 1 or len(cut) != 1:
            raise NoFix("other than one slice")
        index = at.node.slice[cut[0]].slice
        if not isinstance(index, cst.Slice) or index.step is not None or (index.lower is None) == (index.upper is None):
            raise NoFix("a slice with two ends")
        axis = cut[0] - len(texts) if "..." in texts[: cut[0]] else cut[0]
        if "..." in texts[cut[0] :]:
            raise NoFix("axes that are not counted")
        bound = index.upper if index.lower is None else index.lower
        assert bound is not None
        limit = self._expression(At(at.unit, bound)).text
        value = self._expression(At(at.unit, statement.value)).text
        texts[cut[0]] = f"{limit}:" if index.lower is None else f":{limit}"
        kept = f"{name}[{', '.join(texts)}]"
        parts = (value, kept) if index.lower is None else (kept, value)
        return SlicesAt(At(at.unit, statement).place, name, parts, axis)

    def only_argument_of(self, key: NodeKey) -> Key | None:
        """The call whose only argument is this expression."""
        at = self.view.at(key)
        argument = self.view.parent(at)
        if not isinstance(argument, cst.Arg) or argument.star or argument.keyword is not None:
            return None
        call = self.view.parent(At(at.unit, argument))
        return At(at.unit, call).key if isinstance(call, cst.Call) and len(call.args) == 1 else None

    def is_statement(self, key: NodeKey) -> bool:
        """True for an expression whose value nobody takes."""
        return isinstance(self.view.parent(self.view.at(key)), cst.Expr)

    def assignment(self, key: NodeKey) -> tuple[tuple[str, ...], str]:
        """The targets and the value of a plain assignment, as text; a target may be written over lines."""
        at = self.view.at(key)
        if not isinstance(at.node, cst.Assign):
            raise NoFix("not a plain assignment")
        targets = tuple(self._expression(At(at.unit, each.target)).text for each in at.node.targets)
        return targets, self._expression(At(at.unit, at.node.value)).text

    def assigned_value(self, key: NodeKey) -> tuple[int, Expression] | None:
        """The number of targets and the value of a plain assignment; None for another node."""
        at = self.view.at(key)
        if not isinstance(at.node, cst.Assign):
            return None
        return len(at.node.targets), self._expression(At(at.unit, at.node.value))

    def unpacked(self, key: NodeKey) -> int | None:
        """The number of names that a statement binds to the members of an expression; None where it does not."""
        at = self.view.at(key)
        statement = self.view.parent(at)
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return None
        target = statement.targets[0].target
        if not isinstance(target, (cst.Tuple, cst.List)):
            return None
        names = [element.value for element in target.elements if isinstance(element, cst.Element)]
        plain = len(names) == len(target.elements) and all(isinstance(name, cst.Name) for name in names)
        return len(names) if plain else None

    def bound_name(self, key: NodeKey) -> str | None:
        """The local name that a statement binds to an expression as a whole, None if the expression is part of more."""
        at = self.view.at(key)
        parent = self.view.parent(at)
        if not isinstance(parent, (cst.Assign, cst.AnnAssign)):
            return None
        targets = [each.target for each in parent.targets] if isinstance(parent, cst.Assign) else [parent.target]
        if len(targets) != 1 or not isinstance(targets[0], cst.Name):
            raise NoFix("kept in something else than a local name")
        return targets[0].value

    def result_name(self, key: NodeKey) -> str:
        """The name of the model that a call gives back or works on in place: ``p`` of ``p = prepare(m)``, ``m`` of
        ``prepare(m, inplace=True)``; the model may not be a parameter of the function around it."""
        at, call = self.view.at(key), self.call(key)
        model = call.argument(0, "model")
        options = [argument for argument in call.arguments if argument is not model]
        if model is None or any(argument.keyword != "inplace" for argument in options):
            raise NoFix("prepare with more than a model")
        function = self.view.function(at)
        first = (model.value.name or "").partition(".")[0]
        nodes = walk(function.node) if function is not None else ()
        if any(isinstance(node, cst.Param) and node.name.value == first for node in nodes):
            raise NoFix("the model comes from the caller")
        small = self.view.parent(at)
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            name = dotted(small.targets[0].target)
        else:
            name = model.value.name if isinstance(small, cst.Expr) else None
            if [argument.value.text for argument in options] != ["True"]:
                raise NoFix("a result that is not kept")
        if name is None:
            raise NoFix("a result without a plain name")
        return name

    def receiver_attribute(self, key: NodeKey) -> str:
        """``name`` of a call ``self.name(...)``."""
        call = self.call(key)
        receiver, _, name = (call.spelling or "").partition(".")
        if receiver != self.method(key).receiver or not name or "." in name:
            raise NoFix("not a call of an attribute of the receiver")
        return name
