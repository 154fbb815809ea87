"""What statements do with a child that fixes add: a stub, an activation, a FloatFunctional (which has an Identity)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import libcst as cst

from qlsp.syntax.names import dotted
from qlsp.syntax.parse import walk
from qlsp.syntax.view import MODULE_NAMES, ClassAt, CodeView, parsed

RECOGNIZED = re.compile(r"torch\.(?:ao\.)?nn\.(?!quantiz)(?:\w+\.)*\w+")
_ADDED = frozenset({"Module", "ModuleList", "Hardswish", "ELU", "LayerNorm", "Identity"})
_ADDED_NAMES = _ADDED | {"FloatFunctional", "QuantStub", "DeQuantStub"}
"""Library classes of what fixes add, of its children, and their bases."""

_ATTRIBUTES = MODULE_NAMES | {
    "add", "add_relu", "add_scalar", "alpha", "bias", "cat", "elementwise_affine", "eps", "from_float", "inplace",
    "matmul", "mul", "mul_scalar", "normalized_shape", "weight",
}  # fmt: skip
"""Attributes that something which fixes add may have."""


class Outcome(Enum):
    """The outcome of a condition for a child that fixes add; BOTH: not known."""

    TRUE = 1
    FALSE = 2
    BOTH = 3


class Effect(Enum):
    """What statements do with such a child: nothing, nothing and the rest is skipped, or something."""

    NONE = 1
    STOP = 2
    SOME = 3


@dataclass(frozen=True)
class Judge:
    """Follows one child, whose own children are Identities at most, through the statements of a loop or a function."""

    view: CodeView
    path: str
    depth: int = 6
    seen: tuple[int, ...] = ()

    def block(self, body: cst.CSTNode, child: str, returns: bool) -> Effect:
        """Statements in sequence. ``returns``: they are a function's, so a return only ends them."""
        statements: Sequence[cst.CSTNode] = getattr(body, "body", ())
        for statement in statements:
            effect = self.statement(statement, child, returns)
            if effect is not Effect.NONE:
                return effect
        return Effect.NONE

    def statement(self, node: cst.CSTNode, child: str, returns: bool) -> Effect:
        match node:
            case cst.SimpleStatementLine() | cst.SimpleStatementSuite() | cst.Else():
                inner = node.body if isinstance(node, cst.Else) else node
                return self.block(inner, child, returns)
            case cst.Pass():
                return Effect.NONE
            case cst.Continue():
                return Effect.STOP if not returns else Effect.SOME
            case cst.Return(value=value) if returns and (value is None or isinstance(value, cst.Name)):
                return Effect.STOP
            case cst.If():
                return self._if(node, child, returns)
            case cst.For(iter=iterable) if self._lists(iterable, child, _PARAMETERS):
                return Effect.NONE
            case cst.For(iter=iterable, target=target, orelse=None) if self._lists(iterable, child, _CHILDREN):
                return self._looped(node, target)
            case cst.Expr(value=value):
                return Effect.NONE if self._harmless(value, child) else Effect.SOME
        return Effect.SOME

    def _if(self, node: cst.If, child: str, returns: bool) -> Effect:
        test = self.test(node.test, child)
        arms: list[cst.CSTNode | None] = []
        if test is not Outcome.FALSE:
            arms.append(node.body)
        if test is not Outcome.TRUE:
            arms.append(node.orelse)
        effects = [self._arm(arm, child, returns) for arm in arms]
        if Effect.SOME in effects or test is Outcome.BOTH and not _pure(node.test):
            return Effect.SOME
        return Effect.STOP if all(effect is Effect.STOP for effect in effects) else Effect.NONE

    def _arm(self, arm: cst.CSTNode | None, child: str, returns: bool) -> Effect:
        if arm is None:
            return Effect.NONE
        if isinstance(arm, cst.If):
            return self._if(arm, child, returns)
        return self.block(arm.body if isinstance(arm, cst.Else) else arm, child, returns)

    def _harmless(self, value: cst.BaseExpression, child: str) -> bool:
        """A docstring, or a call of a function of this file that does nothing with the child."""
        if isinstance(value, (cst.SimpleString, cst.ConcatenatedString)):
            return True
        if not isinstance(value, cst.Call) or not all(isinstance(each.value, _PLAIN) for each in value.args):
            return False
        position = next((n for n, each in enumerate(value.args) if dotted(each.value) == child), None)
        if position is None or any(each.star or each.keyword is not None for each in value.args[: position + 1]):
            return False
        function, offset = self._function(value.func)
        if function is None or not self.depth:
            return False
        if id(function) in self.seen:
            return True
        parameters = [*function.params.posonly_params, *function.params.params][offset:]
        if position >= len(parameters) or function.asynchronous is not None:
            return False
        judge = Judge(self.view, self.path, self.depth - 1, (*self.seen, id(function)))
        return judge.block(function.body, parameters[position].name.value, returns=True) is not Effect.SOME

    def _function(self, called: cst.BaseExpression) -> tuple[cst.FunctionDef | None, int]:
        """The only function of the file, or the only method of this name in it, and its parameters before the first
        argument."""
        name = dotted(called) or ""
        own, _, method = name.rpartition(".")
        if own not in ("", "self"):
            return None, 0
        found = [
            tree
            for unit in self.view.file(self.path).syntax.all_units.values()
            if unit.kind == "function" and unit.name == method
            if isinstance(tree := parsed(unit), cst.FunctionDef)
        ]
        return (found[0], int(own == "self")) if len(found) == 1 and not found[0].decorators else (None, 0)

    def _looped(self, loop: cst.For, target: cst.BaseExpression) -> Effect:
        """What a loop over the children of the child does with an Identity."""
        child = _looped_child(loop.iter, target)
        effect = self.block(loop.body, child, returns=False) if child is not None else Effect.SOME
        return Effect.NONE if effect is Effect.STOP else effect

    def _lists(self, iterable: cst.BaseExpression, child: str, methods: tuple[str, ...]) -> bool:
        """``child.children()`` and the like, in a ``list`` or not."""
        while isinstance(iterable, cst.Call) and dotted(iterable.func) in ("list", "tuple", "enumerate", "reversed"):
            if len(iterable.args) != 1:
                return False
            iterable = iterable.args[0].value
        name = dotted(iterable.func) if isinstance(iterable, cst.Call) else None
        return name is not None and name in [f"{child}.{each}" for each in methods]

    # --- conditions -----------------------------------------------------------------------------------

    def test(self, node: cst.BaseExpression, child: str) -> Outcome:
        """A condition on a stub or a FloatFunctional."""
        match node:
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                return _NOT[self.test(inner, child)]
            case cst.BooleanOperation(left=left, operator=operator, right=right):
                tests = self.test(left, child), self.test(right, child)
                wins = Outcome.FALSE if isinstance(operator, cst.And) else Outcome.TRUE
                loses = _NOT[wins]
                if tests[0] is wins or tests[1] is wins and _pure(left):
                    return wins
                return loses if tests == (loses, loses) else Outcome.BOTH
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator=sign, comparator=right)]):
                return self._comparison(node, left, sign, right, child)
            case cst.Call():
                return Outcome.FALSE if self._missing(node, child) else Outcome.BOTH
        return Outcome.BOTH

    def _missing(self, node: cst.Call, child: str) -> bool:
        """A call that is false for what fixes add."""
        name, arguments = dotted(node.func), [each.value for each in node.args]
        if name in ("list", "tuple", "len"):
            return len(arguments) == 1 and self._lists(node if name != "len" else arguments[0], child, _PARAMETERS)
        if name in ("callable", "bool") and len(arguments) == 1 and isinstance(arguments[0], cst.Call):
            return self._missing(arguments[0], child)
        if len(arguments) < 2 or dotted(arguments[0]) != child:
            return False
        if name == "isinstance":
            return self._other_types(arguments[1])
        lacks = isinstance(arguments[1], cst.SimpleString) and arguments[1].value[1:-1] not in _ATTRIBUTES
        if name == "getattr":
            return lacks and len(arguments) == 3 and dotted(arguments[2]) in ("None", "False")
        return lacks and name == "hasattr"

    def _other_types(self, node: cst.BaseExpression) -> bool:
        """A class, or a tuple of classes, of none of which what fixes add is an object."""
        if isinstance(node, (cst.Tuple, cst.List, cst.Set)):
            return all(self._other_types(element.value) for element in node.elements)
        name = dotted(node)
        if name is None:
            return False
        qualified = self.view.qualified(self.path, name)
        if qualified is not None and qualified.startswith("torch."):
            return bool(RECOGNIZED.fullmatch(qualified)) and qualified.rpartition(".")[2] not in _ADDED
        meant = self.view.meant(self.path, name)
        return bool(meant) and not any(_asks_itself(self.view, each) for each in meant)

    def _comparison(
        self, node: cst.Comparison, left: cst.BaseExpression, sign: cst.CSTNode, right: cst.BaseExpression, child: str
    ) -> Outcome:
        if isinstance(left, cst.Call) and dotted(left.func) == "len" and len(left.args) == 1:
            inner = left.args[0].value
            empty = compares_with_none(node) if self._lists(inner, child, _PARAMETERS) else None
            return Outcome.BOTH if empty is None else Outcome.TRUE if empty else Outcome.FALSE
        equal = isinstance(sign, (cst.Equal, cst.Is, cst.In))
        if not equal and not isinstance(sign, (cst.NotEqual, cst.IsNot, cst.NotIn)):
            return Outcome.BOTH
        other = False
        if _is_type(left, child):
            other = self._other_types(right)
        elif isinstance(left, cst.Attribute) and left.attr.value == "__name__" and _is_type(left.value, child):
            texts = right.elements if isinstance(right, (cst.Tuple, cst.List, cst.Set)) else None
            words = [element.value for element in texts] if texts is not None else [right]
            exact = texts is not None or isinstance(sign, (cst.Equal, cst.NotEqual))
            other = exact and all(isinstance(w, cst.SimpleString) and w.value[1:-1] not in _ADDED_NAMES for w in words)
        if not other:
            return Outcome.BOTH
        return Outcome.FALSE if equal else Outcome.TRUE


def _is_type(node: cst.BaseExpression, child: str) -> bool:
    if isinstance(node, cst.Call):
        return dotted(node.func) == "type" and len(node.args) == 1 and dotted(node.args[0].value) == child
    return dotted(node) == f"{child}.__class__"


def _looped_child(iterable: cst.BaseExpression, target: cst.BaseExpression) -> str | None:
    """The name of the child in the head of a loop over a listing of children."""
    named = "children" not in [each.value for each in walk(iterable) if isinstance(each, cst.Name)]
    if named and isinstance(target, cst.Tuple) and len(target.elements) == 2:
        target = target.elements[1].value
    elif named:
        return None
    return target.value if isinstance(target, cst.Name) else None


def _asks_itself(view: CodeView, cls: ClassAt) -> bool:
    """May objects that are not made by a class count as its own: by a metaclass, a hook, or as a protocol?"""
    return any(
        _HOOKS.search(each.text)
        or any((base or "").rpartition(".")[2] == "Protocol" for base in each.bases)
        or any((dotted(keyword.value) or "").rpartition(".")[2] != "ABCMeta" for keyword in each.node.keywords)
        for each in (cls, *view.family(cls).ancestors)
    )


def compares_with_none(node: cst.Comparison) -> bool | None:
    """What a comparison of a number of children says where there are none; None if it asks for another number."""
    if len(node.comparisons) != 1:
        return None
    sign, right = node.comparisons[0].operator, node.comparisons[0].comparator
    number = right.value if isinstance(right, cst.Integer) else None
    for kind, limit, empty in _ANY:
        if isinstance(sign, kind) and number == limit:
            return empty
    return None


def _pure(node: cst.CSTNode) -> bool:
    """A condition that only asks."""
    calls = [dotted(each.func) or "" for each in walk(node) if isinstance(each, cst.Call)]
    asked = (name in _QUESTIONS or name.rpartition(".")[2] in _STRING_QUESTIONS for name in calls)
    return all(asked) and not any(isinstance(each, (cst.NamedExpr, cst.Await)) for each in walk(node))


_NOT = {Outcome.TRUE: Outcome.FALSE, Outcome.FALSE: Outcome.TRUE, Outcome.BOTH: Outcome.BOTH}
_PLAIN = (cst.Name, cst.Attribute, cst.SimpleString, cst.Integer, cst.Float, cst.FormattedString, cst.BinaryOperation)
_HOOKS = re.compile(r"\b__(?:subclasshook|instancecheck)__\b")
_PARAMETERS = ("parameters", "named_parameters")
_CHILDREN = ("children", "named_children")
_QUESTIONS = (
    "all", "any", "bool", "callable", "getattr", "hasattr", "isinstance", "issubclass", "len", "list", "str", "tuple",
    "type",
)  # fmt: skip
_STRING_QUESTIONS = ("children", "endswith", "find", "lower", "named_children", "split", "startswith", "upper")
_ANY: tuple[tuple[type[cst.BaseCompOp], str, bool], ...] = (
    (cst.GreaterThan, "0", False),
    (cst.Equal, "0", True),
    (cst.NotEqual, "0", False),
    (cst.LessThan, "1", True),
    (cst.GreaterThanEqual, "1", False),
)
