"""Expressions: one small method per syntax node."""

from __future__ import annotations

import ast
import operator as python
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import libcst as cst

from qlsp.analysis.machine import MAX_ITEMS, MAX_UNROLL, Argument, Arguments
from qlsp.analysis.statements import Statements
from qlsp.syntax.names import dotted
from qlsp.values.state import DictObject, ListObject, State, merge
from qlsp.values.value import (
    A_NUMBER,
    NO_GUARD,
    Choice,
    ClassValue,
    Const,
    FunctionValue,
    Guard,
    Ref,
    Symbol,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    choice,
    exclusive,
    is_number,
    options_of,
    something,
)

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": python.add,
    "-": python.sub,
    "*": python.mul,
    "/": python.truediv,
    "//": python.floordiv,
    "%": python.mod,
    "**": python.pow,
}
MAX_LENGTH = 1000
"""Longer texts and numbers of more bits are not computed."""

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": python.eq,
    "!=": python.ne,
    "<": python.lt,
    "<=": python.le,
    ">": python.gt,
    ">=": python.ge,
}
OPERATOR_TEXT = {
    "Add": "+",
    "AddAssign": "+",
    "Subtract": "-",
    "SubtractAssign": "-",
    "Multiply": "*",
    "MultiplyAssign": "*",
    "Divide": "/",
    "DivideAssign": "/",
    "FloorDivide": "//",
    "FloorDivideAssign": "//",
    "Modulo": "%",
    "ModuloAssign": "%",
    "Power": "**",
    "PowerAssign": "**",
    "MatrixMultiply": "@",
    "MatrixMultiplyAssign": "@",
    "BitAnd": "&",
    "BitAndAssign": "&",
    "BitOr": "|",
    "BitOrAssign": "|",
    "BitXor": "^",
    "BitXorAssign": "^",
    "LeftShift": "<<",
    "RightShift": ">>",
    "Equal": "==",
    "NotEqual": "!=",
    "LessThan": "<",
    "LessThanEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanEqual": ">=",
    "Minus": "-",
    "Plus": "+",
    "BitInvert": "~",
}


@lru_cache(maxsize=4096)
def literal(text: str) -> Any:
    """The value of a number or string as written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.literal_eval(text)


def number_of(operation: str, *values: Value) -> Unknown:
    """A number computed from numbers that are not all known."""
    keys = [("number", repr(value)) if isinstance(value, Const) else _symbol(value) for value in values]
    return Unknown(A_NUMBER, (operation, *keys) if None not in keys else None)


def _symbol(value: Value) -> tuple[object, ...] | None:
    if isinstance(value, Tensor):
        return ("tensor", value.number)
    return value.symbol if isinstance(value, Unknown) else None


class Expressions(Statements):
    """Evaluation of expressions."""

    filling: int

    def eval(self, node: cst.BaseExpression, state: State) -> Value:
        """The value of an expression; effects go into ``state``."""
        self.tick()
        handler = getattr(self, f"_eval_{type(node).__name__}", None)
        if handler is None:
            return Unknown(f"a {type(node).__name__} expression")
        result: Value = handler(node, state)
        return result

    # --- names and literals -------------------------------------------------------------------------

    def _eval_Name(self, node: cst.Name, state: State) -> Value:
        name = node.value
        if name in state.names:
            return self.live(state.names[name], state)
        closure = self.closures.get(self.current.closure)
        if closure is not None and name in closure:
            return closure[name]
        match name:
            case "None":
                return Const(None)
            case "True":
                return Const(True)
            case "False":
                return Const(False)
        return self.global_value(self.current.module, name)

    def live(self, value: Value, state: State) -> Value:
        """A value without the alternatives that this path rules out."""
        if not isinstance(value, Choice):
            return value
        kept = [(guard, option) for guard, option in value.options if not exclusive(guard, state.guard)]
        if len(kept) == len(value.options) or not kept:
            return value
        return choice(kept) if len(kept) > 1 else kept[0][1]

    def _eval_Integer(self, node: cst.Integer, state: State) -> Value:
        return Const(literal(node.value))

    def _eval_Float(self, node: cst.Float, state: State) -> Value:
        return Const(literal(node.value))

    def _eval_Imaginary(self, node: cst.Imaginary, state: State) -> Value:
        return Unknown("a complex number")

    def _eval_Ellipsis(self, node: cst.Ellipsis, state: State) -> Value:
        return Const(...)

    def _eval_SimpleString(self, node: cst.SimpleString, state: State) -> Value:
        value = literal(node.value)
        return Const(value) if isinstance(value, str) else Unknown("bytes")

    def _eval_ConcatenatedString(self, node: cst.ConcatenatedString, state: State) -> Value:
        left, right = self.eval(node.left, state), self.eval(node.right, state)
        if isinstance(left, Const) and isinstance(right, Const):
            return Const(left.value + right.value)
        return Unknown("a computed string")

    def _eval_FormattedString(self, node: cst.FormattedString, state: State) -> Value:
        parts: list[str] = []
        for part in node.parts:
            if isinstance(part, cst.FormattedStringText):
                parts.append(part.value)
                continue
            assert isinstance(part, cst.FormattedStringExpression)
            value = self.eval(part.expression, state)
            if not isinstance(value, Const) or part.format_spec is not None or part.conversion is not None:
                return Unknown("a computed string")
            parts.append(str(value.value))
        return Const("".join(parts))

    def _eval_Tuple(self, node: cst.Tuple, state: State) -> Value:
        items = self.elements(node.elements, state)
        return TupleValue(tuple(items)) if items is not None else Unknown("a tuple of unknown length")

    def _eval_List(self, node: cst.List, state: State) -> Value:
        return self.new_list(node.elements, state)

    def _eval_Set(self, node: cst.Set, state: State) -> Value:
        return self.new_list(node.elements, state)

    def new_list(self, elements: Sequence[cst.BaseElement], state: State) -> Value:
        """A list display."""
        items = self.elements(elements, state)
        if items is not None:
            return self.allocate(state, ListObject(tuple(items)))
        found: list[tuple[Guard, Value]] = []
        for element in elements:
            value = self.eval(element.value, state)
            if isinstance(element, cst.StarredElement):
                value = self.element(value, -1, state)
            found.append((NO_GUARD, value))
        return self.allocate(state, ListObject(None, choice(found)))

    def elements(self, elements: Sequence[cst.BaseElement], state: State) -> list[Value] | None:
        """The values of a display, None if a starred one has no known length."""
        found: list[Value] = []
        for element in elements:
            value = self.eval(element.value, state)
            if isinstance(element, cst.StarredElement):
                items = self.items(value, state)
                if items is None or len(found) + len(items) > MAX_ITEMS:
                    return None
                found.extend(items)
            else:
                found.append(value)
        return found

    def _eval_Dict(self, node: cst.Dict, state: State) -> Value:
        entries: dict[object, Value] = {}
        rest: Value | None = None
        for element in node.elements:
            value = self.eval(element.value, state)
            if isinstance(element, cst.StarredDictElement):
                thing = self.load(state, value) if isinstance(value, Ref) else None
                if isinstance(thing, DictObject):
                    entries.update(thing.entries)
                    rest = thing.rest if thing.rest is not None else rest
                else:
                    rest = Unknown("entries of an unknown dict")
                continue
            assert isinstance(element, cst.DictElement)
            key = self.eval(element.key, state)
            if isinstance(key, Const):
                entries[key.value] = value
            elif isinstance(key, Symbol):
                entries[key] = value
            else:
                rest = value
        return self.allocate(state, DictObject(tuple(entries.items()), rest))

    # --- operators ----------------------------------------------------------------------------------

    def operator_text(self, operator: cst.CSTNode) -> str:
        """``+`` of an ``Add`` or ``AddAssign``."""
        return OPERATOR_TEXT.get(type(operator).__name__, "?")

    def _eval_BinaryOperation(self, node: cst.BinaryOperation, state: State) -> Value:
        left = self.eval(node.left, state)
        right = self.eval(node.right, state)
        operator = self.operator_text(node.operator)
        return self.binary(operator, left, right, node, (node.left, node.right), state)

    def binary(
        self,
        operator: str,
        left: Value,
        right: Value,
        node: cst.CSTNode,
        operands: tuple[cst.BaseExpression, cst.BaseExpression],
        state: State,
        in_place: bool = False,
    ) -> Value:
        """Apply a binary operator: tensors by their row, Python values by Python."""
        if self.has_tensor(left, state) or self.has_tensor(right, state):
            operator = f"{operator}=" if in_place else operator
            row = self.backend.operators.get(operator)
            if row is None:
                return Unknown(f"operator {operator} on tensors")
            arguments = Arguments([Argument(left, operands[0]), Argument(right, operands[1])])
            return self.apply(row, operator, arguments, node, state)
        if isinstance(left, Choice) or isinstance(right, Choice):
            pairs = [
                (g1 | g2, self.binary(operator, a, b, node, operands, state))
                for g1, a in options_of(left)
                for g2, b in options_of(right)
                if not exclusive(g1, g2)
            ]
            return choice(pairs) if pairs else Unknown("no alternative is left")
        if isinstance(left, Const) and isinstance(right, Const):
            return self._arithmetic(operator, left.value, right.value)
        if is_number(left) and is_number(right):
            return number_of(operator, left, right)
        return self._sequence_arithmetic(operator, left, right, state)

    def _arithmetic(self, operator: str, left: Any, right: Any) -> Value:
        compute = ARITHMETIC.get(operator)
        if compute is None or _is_large(operator, left, right):
            return Unknown("arithmetic that is not followed")
        try:
            result = compute(left, right)
        except Exception:
            return Unknown("arithmetic that fails")
        return Unknown("a long string") if isinstance(result, str) and len(result) > MAX_LENGTH else Const(result)

    def _sequence_arithmetic(self, operator: str, left: Value, right: Value, state: State) -> Value:
        modules = self.joined(left, right, state) if operator == "+" else None
        if modules is not None:
            return modules
        mine, theirs = self.items(left, state), self.items(right, state)
        if operator == "+" and mine is not None and theirs is not None and len(mine) + len(theirs) <= MAX_ITEMS:
            joined = (*mine, *theirs)
            both_tuples = isinstance(left, TupleValue) and isinstance(right, TupleValue)
            return TupleValue(joined) if both_tuples else self.allocate(state, ListObject(joined))
        if operator == "+" and self.is_list(left, state) and self.is_list(right, state):
            parts = [(NO_GUARD, self.element(value, -1, state)) for value in (left, right)]
            return self.allocate(state, ListObject(None, choice(parts)))
        merged = self.merged_dicts(left, right, state) if operator == "|" else None
        if merged is not None:
            return self.allocate(state, merged)
        if operator == "*":
            for sequence, count in ((mine, right), (theirs, left)):
                number = count.value if isinstance(count, Const) else None
                times = min(number, MAX_UNROLL) if isinstance(number, int) else None
                if sequence is not None and times is not None and len(sequence) * times <= MAX_ITEMS:
                    repeated = tuple(sequence * times)
                    if isinstance(left, TupleValue) or isinstance(right, TupleValue):
                        return TupleValue(repeated)
                    return self.allocate(state, ListObject(repeated))
                if sequence is not None and sequence:
                    return self.allocate(state, ListObject(None, choice([(NO_GUARD, v) for v in sequence])))
        unknown = [value for value in (left, right) if isinstance(value, Unknown) and not is_number(value)]
        return Unknown(unknown[0].reason if unknown else "arithmetic on unknown values")

    def merged_dicts(self, left: Value, right: Value, state: State) -> DictObject | None:
        """What ``left | right`` of two dicts holds."""
        mine = self.load(state, left) if isinstance(left, Ref) else None
        theirs = self.load(state, right) if isinstance(right, Ref) else None
        if not isinstance(mine, DictObject) or not isinstance(theirs, DictObject):
            return None
        entries = {**dict(mine.entries), **dict(theirs.entries)}
        return DictObject(tuple(entries.items()), theirs.rest if theirs.rest is not None else mine.rest)

    def is_list(self, value: Value, state: State) -> bool:
        """True for lists and tuples, of known length or not."""
        if isinstance(value, TupleValue):
            return True
        return isinstance(value, Ref) and isinstance(self.load(state, value), ListObject)

    def _eval_UnaryOperation(self, node: cst.UnaryOperation, state: State) -> Value:
        value = self.eval(node.expression, state)
        if isinstance(node.operator, cst.Not):
            truth = self.truth(value, state)
            if truth is not None:
                return Const(not truth)
            if isinstance(value, Choice):
                return choice([(g, self._negated(v, state)) for g, v in value.options])
            return self._negated(value, state)
        operator = self.operator_text(node.operator)
        if self.has_tensor(value, state):
            row = self.backend.operators.get(f"{operator}x")
            if row is None:
                return Unknown(f"unary {operator} on a tensor")
            arguments = Arguments([Argument(value, node.expression)])
            return self.apply(row, operator, arguments, node, state)
        if isinstance(value, Const) and isinstance(value.value, (int, float)):
            if operator == "-":
                return Const(-value.value)
            if operator == "+":
                return value
        if isinstance(value, Choice):
            return choice([(g, number_of(operator, v) if is_number(v) else v) for g, v in value.options])
        return number_of(operator, value) if is_number(value) else Unknown("arithmetic on unknown values")

    def _negated(self, value: Value, state: State) -> Value:
        truth = self.truth(value, state)
        if truth is not None:
            return Const(not truth)
        if isinstance(value, Unknown) and value.symbol is not None:
            return Unknown(value.reason, ("not", value.symbol))
        if isinstance(value, Tensor):
            return Unknown("a condition on data", ("not", ("truth", value.number)))
        return Unknown("a condition on data")

    def _eval_BooleanOperation(self, node: cst.BooleanOperation, state: State) -> Value:
        conjunction = isinstance(node.operator, cst.And)
        left = self.eval(node.left, state)
        truth = self.truth(left, state)
        if truth is not None:
            return left if truth != conjunction else self.eval(node.right, state)
        arm = state.fork()
        self.refine(node.left, conjunction, arm)
        right = self.eval(node.right, arm)
        state.heap.update(arm.heap)
        if not conjunction and isinstance(left, (Tensor, Unknown)) and not isinstance(right, Const):
            return choice([(NO_GUARD, left), (NO_GUARD, right)])
        right_truth = self.truth(right, state)
        if right_truth is not None and right_truth != conjunction:
            return Const(right_truth)
        if right_truth is not None and right_truth == conjunction:
            return left
        if isinstance(left, Unknown) and isinstance(right, Unknown) and left.symbol and right.symbol:
            word = "and" if conjunction else "or"
            return Unknown("a condition on unknown values", (word, left.symbol, right.symbol))
        return Unknown("a condition on unknown values")

    def _eval_Comparison(self, node: cst.Comparison, state: State) -> Value:
        left = self.eval(node.left, state)
        result: Value = Const(True)
        for comparison in node.comparisons:
            right = self.eval(comparison.comparator, state)
            result = self._compare(comparison.operator, left, right, node, state)
            if not (isinstance(result, Const) and result.value is True):
                break
            left = right
        return result

    def _compare(
        self, operator: cst.BaseCompOp, left: Value, right: Value, node: cst.Comparison, state: State
    ) -> Value:
        if isinstance(left, Choice) or isinstance(right, Choice):
            pairs = [
                (g1 | g2, self._compare(operator, a, b, node, state))
                for g1, a in options_of(left)
                for g2, b in options_of(right)
                if not exclusive(g1, g2)
            ]
            return choice(pairs) if pairs else Unknown("no alternative is left")
        match operator:
            case cst.Is() | cst.IsNot():
                same = self._identical(left, right)
                if same is not None:
                    return Const(same if isinstance(operator, cst.Is) else not same)
                if isinstance(left, Unknown) and left.symbol is not None and isinstance(right, Const):
                    symbol: tuple[object, ...] = ("is", left.symbol, right)
                    if isinstance(operator, cst.IsNot):
                        symbol = ("not", symbol)
                    return Unknown(left.reason, symbol)
                return Unknown("an identity of unknown values")
            case cst.In() | cst.NotIn():
                found = self._contains(left, right, state)
                if found is None:
                    return self._membership(operator, left, right, state)
                return Const(found if isinstance(operator, cst.In) else not found)
        text = self.operator_text(operator)
        if isinstance(left, Const) and isinstance(right, Const) and text in COMPARISONS:
            try:
                return Const(bool(COMPARISONS[text](left.value, right.value)))
            except Exception:
                return Unknown("a comparison that fails")
        if isinstance(left, (Symbol, ClassValue)) and isinstance(right, (Symbol, ClassValue)) and text in ("==", "!="):
            return Const(bool(self._identical(left, right)) == (text == "=="))
        if text in ("==", "!=") and self._unlike(left, right, state):
            return Const(text == "!=")
        if self.has_tensor(left, state) or self.has_tensor(right, state):
            row = self.backend.operators.get(text)
            if row is not None:
                operands = (node.left, node.comparisons[0].comparator)
                arguments = Arguments([Argument(left, operands[0]), Argument(right, operands[1])])
                return self.apply(row, text, arguments, node, state)
        return self._symbolic_comparison(text, left, right)

    def _unlike(self, left: Value, right: Value, state: State) -> bool:
        """Is one a constant and the other a list, tuple or dict, which never equal it?"""
        single, several = (left, right) if isinstance(left, Const) else (right, left)
        if not isinstance(single, Const) or not isinstance(single.value, (bool, int, float, str, type(None))):
            return False
        thing = self.load(state, several) if isinstance(several, Ref) else several
        return isinstance(thing, (ListObject, DictObject, TupleValue))

    def _membership(self, operator: cst.BaseCompOp, left: Value, right: Value, state: State) -> Unknown:
        """Whether a container has an item, where that is not known."""
        thing = self.load(state, right) if isinstance(right, Ref) else None
        symbol: tuple[object, ...] | None = None
        if isinstance(thing, DictObject) and isinstance(right, Ref) and isinstance(left, Const):
            symbol = self.presence(thing, left, right)
        elif isinstance(right, Tensor) and right.collection and isinstance(left, Const):
            symbol = ("has entry", self.number(("entries", right.number)), left)
        elif isinstance(left, Unknown) and left.symbol is not None:
            items = self.items(right, state)
            if items is not None and all(isinstance(item, (Const, Symbol)) for item in items):
                symbol = ("in", left.symbol, tuple(items))
        if symbol is not None and isinstance(operator, cst.NotIn):
            symbol = ("not", symbol)
        return Unknown("membership of unknown values", symbol)

    def _symbolic_comparison(self, text: str, left: Value, right: Value) -> Value:
        if isinstance(left, Unknown) and left.symbol is not None and isinstance(right, Const):
            if text == "!=":
                return Unknown(left.reason, ("not", ("==", left.symbol, right)))
            return Unknown(left.reason, (text, left.symbol, right))
        return Unknown("a comparison of unknown values")

    def _identical(self, left: Value, right: Value) -> bool | None:
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return None
        if isinstance(left, Const) and isinstance(right, Const):
            if left.value is None or right.value is None or isinstance(left.value, bool):
                return left == right
            return None
        if isinstance(left, (Ref, Symbol, ClassValue)) and isinstance(right, (Ref, Symbol, ClassValue)):
            if isinstance(left, ClassValue) and isinstance(right, ClassValue):
                return left.span == right.span
            return left == right
        return False if isinstance(left, Const) != isinstance(right, Const) else None

    def _contains(self, item: Value, container: Value, state: State) -> bool | None:
        if isinstance(container, Const) and isinstance(container.value, str) and isinstance(item, Const):
            return isinstance(item.value, str) and item.value in container.value
        thing = self.load(state, container) if isinstance(container, Ref) else None
        entries = self.own_entries(container, thing)
        thing = self.load(state, entries) if entries is not None else thing
        if isinstance(thing, DictObject) and isinstance(item, Const):
            if item.value in dict(thing.entries):
                return None if self.filling else True
            return None if thing.rest is not None else False
        items = self.items(container, state)
        if items is None or not isinstance(item, (Const, Symbol, ClassValue)):
            return None
        if item in items:
            return True
        return False if all(isinstance(each, (Const, Symbol, ClassValue)) for each in items) else None

    def _eval_IfExp(self, node: cst.IfExp, state: State) -> Value:
        base = state.guard
        values: list[tuple[Guard, Value]] = []
        outcomes: list[State] = []
        for truth, arm in self.branch(node.test, state.fork()):
            value = self.eval(node.body if truth else node.orelse, arm)
            values.append((arm.guard - base, value))
            outcomes.append(arm)
        self.adopt(state, outcomes, base)
        return choice(values)

    def adopt(self, state: State, outcomes: list[State], base: Guard) -> None:
        """Continue in ``state`` with what the given states have in common or as alternatives."""
        merged = merge(outcomes, base)
        if merged is not None:
            state.names, state.heap, state.guard = merged.names, merged.heap, merged.guard

    def _eval_NamedExpr(self, node: cst.NamedExpr, state: State) -> Value:
        value = self.eval(node.value, state)
        self.assign(node.target, value, state)
        if isinstance(node.target, cst.Name):
            self.current.assigned.add(node.target.value)
        return value

    def _eval_Await(self, node: cst.Await, state: State) -> Value:
        return self.eval(node.expression, state)

    def _eval_Yield(self, node: cst.Yield, state: State) -> Value:
        frame = self.current
        frame.uneven = frame.uneven or self.loop_depth > frame.depth or state.guard != frame.guard
        if isinstance(node.value, cst.From):
            value = self.eval(node.value.item, state)
            items = self.items(value, state)
            frame.uneven = frame.uneven or items is None
            frame.yields.extend(items if items is not None else [self.comprehension_element(value, state)])
        elif node.value is not None:
            frame.yields.append(self.eval(node.value, state))
        return Unknown("a value sent to a generator")

    def _eval_Lambda(self, node: cst.Lambda, state: State) -> Value:
        frame = self.current
        return self.function_of(node, frame.unit, frame.module, frame.owner, self.capture(state))

    # --- attributes, items, calls -------------------------------------------------------------------

    def _eval_Attribute(self, node: cst.Attribute, state: State) -> Value:
        value = self.eval(node.value, state)
        return self.live(self.read(value, node, state), state)

    def read(self, value: Value, node: cst.Attribute, state: State) -> Value:
        """Read an attribute where the source names it."""
        return self.attribute(value, node.attr.value, state)

    def _eval_Subscript(self, node: cst.Subscript, state: State) -> Value:
        value = self.eval(node.value, state)
        if isinstance(value, Choice):
            return choice([(guard, self.subscript(option, node, state)) for guard, option in something(value)])
        return self.subscript(value, node, state)

    def _eval_Call(self, node: cst.Call, state: State) -> Value:
        if isinstance(node.func, cst.Name) and node.func.value in ("super", "locals", "globals"):
            special = self.special_call(node, state)
            if special is not None:
                return special
        if self.grown(node, state):
            return Const(None)
        function = self.eval(node.func, state)
        arguments = self.arguments(node, state)
        return self.call(function, arguments, node, state)

    def arguments(self, node: cst.Call, state: State) -> Arguments:
        """Evaluate call arguments, spreading ``*`` and ``**`` where their content is known."""
        found = Arguments()
        for argument in node.args:
            value = self.eval(argument.value, state)
            if argument.star == "*":
                items = self.items(value, state)
                if items is None:
                    found.open = True
                    found.positional.append(Argument(self.element(value, -1, state), argument.value))
                else:
                    found.positional.extend(Argument(item) for item in items)
            elif argument.star == "**":
                thing = self.load(state, value) if isinstance(value, Ref) else None
                if isinstance(thing, DictObject):
                    for key, entry in thing.entries:
                        found.keywords[str(key)] = Argument(entry)
                    found.open = found.open or thing.rest is not None
                else:
                    found.open = True
            elif argument.keyword is not None:
                found.keywords[argument.keyword.value] = Argument(value, argument.value)
            else:
                found.positional.append(Argument(value, argument.value))
        return found

    def qualified_name(self, node: cst.BaseExpression) -> str | None:
        """The canonical library name an expression stands for."""
        name = dotted(node)
        if name is None:
            return None
        value = self.eval(node, State())
        return value.name if isinstance(value, Symbol) else None

    # --- provided by other parts --------------------------------------------------------------------

    def own_entries(self, value: Value, thing: object, state: State | None = None) -> Ref | None:
        """The dict behind an object of a class that derives from ``dict`` (see ``items``)."""
        raise NotImplementedError

    def comprehension_element(self, value: Value, state: State) -> Value:
        """One element, standing for all of them (see ``items``)."""
        raise NotImplementedError

    def presence(self, thing: DictObject, key: Value | None, ref: Ref) -> tuple[object, ...]:
        """The symbol of the question whether a dict has a key (see ``items``)."""
        raise NotImplementedError

    def grown(self, node: cst.Call, state: State) -> bool:
        """Do what ``list.extend(generator)`` does (see ``comprehensions``)."""
        raise NotImplementedError

    def joined(self, left: Value, right: Value, state: State) -> Value | None:
        """The sum of two containers of modules (see ``module_containers``)."""
        raise NotImplementedError

    def subscript(self, value: Value, node: cst.Subscript, state: State) -> Value:
        """Read an item (see ``objects``)."""
        raise NotImplementedError

    def special_call(self, node: cst.Call, state: State) -> Value | None:
        """``super()`` and other calls that look at the running frame (see ``calls``)."""
        raise NotImplementedError

    def call(self, function: Value, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """Call a value (see ``calls``)."""
        raise NotImplementedError

    def apply(
        self,
        row: Any,
        spelling: str,
        arguments: Arguments,
        node: cst.CSTNode,
        state: State,
        owner: Any = None,
    ) -> Value:
        """Apply an operator row (see ``operators``)."""
        raise NotImplementedError

    def call_function(
        self,
        function: FunctionValue,
        receiver: Value | None,
        arguments: Arguments,
        node: cst.CSTNode | None,
        state: State,
    ) -> Value:
        """Call a function of the project (see ``calls``)."""
        raise NotImplementedError


def _is_large(operator: str, left: Any, right: Any) -> bool:
    """May the result of an operation on constants take long to compute, or much memory?"""
    if operator == "**":
        return not isinstance(right, (int, float)) or abs(right) > MAX_UNROLL or _size(left) > MAX_LENGTH
    if operator == "*" and isinstance(left, int) != isinstance(right, int):
        length, times = (_size(right), left) if isinstance(left, int) else (_size(left), right)
        return isinstance(times, int) and length * times > MAX_LENGTH
    return max(_size(left), _size(right)) > MAX_LENGTH


def _size(value: Any) -> int:
    if isinstance(value, int):
        return value.bit_length()
    return len(value) if isinstance(value, (str, bytes, tuple)) else 1
