"""Items: reading and writing what containers and tensors hold, iteration, inputs of unknown structure."""

from __future__ import annotations

import re
from dataclasses import replace

import libcst as cst

from qlsp.analysis.machine import MAX_ITEMS, Argument, Arguments
from qlsp.analysis.objects import Objects
from qlsp.values.qparams import DerivedScale, ObservedScale
from qlsp.values.state import DictObject, Instance, ListObject, State
from qlsp.values.value import (
    NO_GUARD,
    Bound,
    Choice,
    ClassValue,
    Const,
    Domain,
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
    feasible,
    options_of,
)

ORDERED_CONTAINERS = frozenset({"torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ParameterList"})
NAMED_CONTAINERS = frozenset({"torch.nn.ModuleDict", "torch.nn.ParameterDict"})
MODULE_PACKAGES = ("torch.nn.", "torch.ao.", "torchvision.")
NO_CHILDREN = frozenset({"qconfig", "training", "*"})
NUMBERS = re.compile(r"(channels?|planes|features?_size|dims?|width|size|strides?|depth|ratio|expansion|num_\w+|_c)$")
"""Names of attributes that hold numbers, whatever they are."""

DICT = Symbol("builtins.dict")
ENTRIES = "the entries of a dict"
"""The attribute under which an object of a class that derives from ``dict`` keeps its entries."""


class Items(Objects):
    """Reading and writing of items."""

    def children(self, instance: Instance, state: State) -> dict[str, Value]:
        """The modules among the attributes of an instance, in order; what is not known is one, unless its name is
        that of a number."""
        return {k: v for k, v in instance.attributes.items() if k.isdecimal() or self._is_child(k, v, state)}

    def _is_child(self, name: str, value: Value, state: State) -> bool:
        if name in NO_CHILDREN:
            return False
        for _, option in options_of(value):
            if isinstance(option, Unknown):
                return not NUMBERS.search(name)
            instance = self.instance(state, option)
            if instance is not None and self._is_module(instance):
                return True
        return False

    def _is_module(self, instance: Instance) -> bool:
        order = self.mro(instance.cls)
        names = [entry.name for entry in order if isinstance(entry, Symbol)]
        return any(isinstance(e, Unknown) for e in order) or any(name.startswith(MODULE_PACKAGES) for name in names)

    def items(self, value: Value, state: State) -> list[Value] | None:
        """The items of an iterable of known length, else None."""
        if isinstance(value, TupleValue):
            return list(value.items)
        if isinstance(value, Choice):
            return self._items_of_alternatives(value, state)
        if isinstance(value, Const) and isinstance(value.value, str):
            return [Const(character) for character in value.value]
        if isinstance(value, Const) and isinstance(value.value, range):
            return [Const(number) for number in value.value]
        if not isinstance(value, Ref):
            return None
        thing = self.load(state, value)
        if isinstance(thing, ListObject):
            return list(thing.items) if thing.items is not None else None
        if isinstance(thing, DictObject):
            if thing.rest is not None:
                return None
            return [key if isinstance(key, Symbol) else Const(key) for key, _ in thing.entries]
        if isinstance(thing, Instance):
            entries = self.own_entries(value, thing)
            if entries is not None:
                return self.items(entries, state)
            base = self.native_base(thing)
            if base in ORDERED_CONTAINERS and "*" not in thing.attributes:
                return list(self.children(thing, state).values())
            if base in NAMED_CONTAINERS:
                return [Const(name) for name in self.children(thing, state)] if "*" not in thing.attributes else None
            return self._iterated(value, thing, state)
        return None

    def _iterated(self, ref: Ref, thing: Instance, state: State) -> list[Value] | None:
        """What the ``__iter__`` of a class in view gives."""
        if not isinstance(thing.cls, ClassValue):
            return None
        method = self._class_attribute(thing.cls, "__iter__", ref, state)
        if not isinstance(method, Bound) or method.function is None:
            return None
        found = self.call_function(method.function, ref, Arguments(), None, state)
        return self.items(found, state) if found != ref else None

    def _items_of_alternatives(self, value: Choice, state: State) -> list[Value] | None:
        """Alternatives of one length, item by item."""
        rows = [(guard, self.items(option, state)) for guard, option in feasible(value.options, state.guard)]
        known = [(guard, row) for guard, row in rows if row is not None]
        if not rows or len(known) < len(rows) or len({len(row) for _, row in known}) > 1:
            return None
        return [choice([(guard, row[place]) for guard, row in known]) for place in range(len(known[0][1]))]

    def element(self, value: Value, index: int, state: State) -> Value:
        """Element ``index`` of an iterable of unknown length; -1 stands for some element."""
        if isinstance(value, Choice):
            return choice([(guard, self.element(v, index, state)) for guard, v in value.options])
        if isinstance(value, Tensor):
            return self.item_of_tensor(value, index)
        if isinstance(value, Ref):
            thing = self.load(state, value)
            if isinstance(thing, ListObject) and thing.items is None:
                if thing.element is None:
                    return Unknown("an element of an empty list")
                element = self.unshared(thing.element)
                return self._indexed(element, index) if index >= 0 else element
            if isinstance(thing, DictObject) and thing.rest is not None:
                return Unknown("a key of an unknown dict")
            if isinstance(thing, Instance) and "*" in thing.attributes:
                return thing.attributes["*"]
        items = self.items(value, state)
        if items:
            return choice([(NO_GUARD, item) for item in items]) if index < 0 else items[index % len(items)]
        if isinstance(value, Unknown):
            symbol = (*value.symbol, "[]", index) if value.symbol is not None and index >= 0 else None
            return Unknown(value.reason, symbol)
        return Unknown("an element of an unknown iterable")

    def unshared(self, value: Value) -> Value:
        """A member of a list of unknown length: where one module stands for many, its scale is not one scale."""
        if isinstance(value, Choice):
            return choice([(guard, self.unshared(option)) for guard, option in value.options])
        if isinstance(value, TupleValue):
            return TupleValue(tuple(self.unshared(item) for item in value.items))
        if not isinstance(value, Tensor) or value.qparams is None:
            return value
        return replace(value, qparams=replace(value.qparams, scale=None)) if self.is_summary(value) else value

    def is_summary(self, value: Tensor) -> bool:
        """True if the scale belongs to a module that stands for several (built in a loop of unknown length)."""
        scale = value.qparams.scale if value.qparams is not None else None
        while isinstance(scale, DerivedScale):
            scale = scale.base
        return isinstance(scale, ObservedScale) and scale.observer.owner in self.summaries

    def _indexed(self, value: Value, index: int) -> Value:
        """A fixed element of a list whose elements are described by one value."""
        if isinstance(value, Choice):
            return choice([(guard, self._indexed(option, index)) for guard, option in value.options])
        if isinstance(value, TupleValue):
            return TupleValue(tuple(self._indexed(item, index) for item in value.items))
        if isinstance(value, Tensor):
            number = self.number(("item", value.number, index))
            base = number if value.base == value.number else value.base
            return replace(value, number=number, base=base, many=False)
        return value

    def item_of_tensor(self, value: Tensor, index: int) -> Tensor:
        """What iterating or unpacking a tensor (or an input that may be a list) gives."""
        number = self.number(("item", value.number, index))
        return replace(value, number=number, base=value.base)

    def marked_many(self, value: Value) -> Value:
        """The value as an element of a list of unknown length."""
        if isinstance(value, Choice):
            return choice([(guard, self.marked_many(option)) for guard, option in value.options])
        if isinstance(value, TupleValue):
            return TupleValue(tuple(self.marked_many(item) for item in value.items))
        return replace(value, many=True) if isinstance(value, Tensor) and value.base == value.number else value

    def loop_element(self, value: Value, statement: cst.For, state: State) -> Value:
        """What the loop variable stands for in a loop of unknown length."""
        return self.comprehension_element(value, state)

    def comprehension_element(self, value: Value, state: State) -> Value:
        """One element, standing for all of them."""
        if isinstance(value, Tensor):
            return self.item_of_tensor(value, -1)
        return self.marked_many(self.element(value, -1, state))

    def plain_input(self, value: Tensor) -> Tensor:
        """An input that is known to be one tensor."""
        return replace(value, collection=False)

    def list_input(self, value: Tensor, state: State) -> Value:
        """An input that is known to be a list of tensors."""
        number = self.number(("elements", value.number))
        element = replace(value, number=number, base=number, many=True, collection=False)
        return self.allocate(state, ListObject(None, element))

    def dict_input(self, value: Tensor, state: State) -> Value:
        """An input that is known to be a dict of tensors."""
        return self.allocate(state, DictObject((), self.dict_entry(value)))

    def dict_entry(self, value: Tensor) -> Tensor:
        """Some entry of an input that turns out to be a dict of tensors."""
        number = self.number(("entries", value.number))
        return replace(value, number=number, base=number, many=True, collection=False)

    def appended(self, thing: ListObject, value: Value) -> ListObject:
        """A list after ``append``."""
        if thing.items is not None and len(thing.items) < MAX_ITEMS:
            return ListObject((*thing.items, value))
        return self.loosened(thing, value)

    def loosened(self, thing: ListObject, value: Value | None = None) -> ListObject:
        """A list that has lost its length, with one more value in it."""
        parts: list[tuple[Guard, Value]] = [(NO_GUARD, self.marked_many(v)) for v in thing.items or ()]
        if thing.element is not None:
            parts.append((NO_GUARD, thing.element))
        if value is not None:
            parts.append((NO_GUARD, self.marked_many(value)))
        return ListObject(None, choice(parts) if parts else None)

    def extended(self, thing: ListObject, value: Value, state: State) -> ListObject:
        """A list after ``extend``."""
        items = self.items(value, state)
        if items is not None and thing.items is not None and len(thing.items) + len(items) <= MAX_ITEMS:
            return ListObject((*thing.items, *items))
        parts: list[tuple[Guard, Value]] = [(NO_GUARD, v) for v in thing.items or ()]
        if thing.element is not None:
            parts.append((NO_GUARD, thing.element))
        if items is not None:
            parts.extend((NO_GUARD, v) for v in items)
        else:
            parts.append((NO_GUARD, self.comprehension_element(value, state)))
        return ListObject(None, choice(parts) if parts else None)

    def subscript(self, value: Value, node: cst.Subscript, state: State) -> Value:
        """Read an item or a slice."""
        if isinstance(value, (Symbol, ClassValue)):
            return value
        index = self.index_of(node, state)
        if isinstance(value, Tensor):
            return self._tensor_item(value, index, node, state)
        if isinstance(index, Choice):
            return choice([(g, self.item(value, option, state)) for g, option in index.options])
        return self.item(value, index, state)

    def index_of(self, node: cst.Subscript, state: State) -> Value:
        """The value between the brackets; a slice is a tuple that begins with its name."""
        parts: list[Value] = []
        for element in node.slice:
            if isinstance(element.slice, cst.Index):
                parts.append(self.eval(element.slice.value, state))
            elif isinstance(element.slice, cst.Slice):
                bounds = [element.slice.lower, element.slice.upper, element.slice.step]
                values = [self.eval(bound, state) if bound is not None else Const(None) for bound in bounds]
                parts.append(TupleValue((Const("slice"), *values)))
        return parts[0] if len(parts) == 1 else TupleValue(tuple(parts))

    def _tensor_item(self, value: Tensor, index: Value, node: cst.Subscript, state: State) -> Value:
        if isinstance(index, Const) and isinstance(index.value, str):
            number = self.number(("item", value.number, index.value))
            return replace(value, number=number, base=number)
        return self.slice_of(value, self.key_of(index, state), node)

    def item(self, value: Value, index: Value, state: State) -> Value:
        """``value[index]`` of a Python container."""
        if isinstance(value, Unknown):
            symbol = (*value.symbol, "[]", index) if value.symbol is not None else None
            return Unknown(value.reason, symbol)
        thing = self.load(state, value) if isinstance(value, Ref) else None
        if isinstance(thing, DictObject):
            assert isinstance(value, Ref)
            return self.dict_value(thing, index, value, state)
        if isinstance(thing, Instance):
            entries = self.own_entries(value, thing)
            if entries is not None:
                return self.item(entries, index, state)
            if self.native_base(thing) in NAMED_CONTAINERS:
                if isinstance(index, Const) and str(index.value) in thing.attributes:
                    return thing.attributes[str(index.value)]
                values = [(NO_GUARD, v) for v in self.children(thing, state).values()]
                values += [(NO_GUARD, thing.attributes["*"])] if "*" in thing.attributes else []
                return Unknown("an entry under an unknown key") if not values else choice(values)
            if self.native_base(thing) not in ORDERED_CONTAINERS:
                method = self.attribute(value, "__getitem__", state)
                if isinstance(method, Bound) and method.function is not None:
                    return self.call_function(method.function, value, Arguments.of(index), None, state)
                return Unknown("an item of an object")
        items = self.items(value, state)
        if items is None:
            position = index.value if isinstance(index, Const) and isinstance(index.value, int) else -1
            if isinstance(index, TupleValue):
                return value
            return self.element(value, position if position >= 0 else -1, state)
        return self._known_item(value, items, index, state)

    def _known_item(self, value: Value, items: list[Value], index: Value, state: State) -> Value:
        if isinstance(index, Const) and isinstance(index.value, int):
            position = index.value
            return items[position] if -len(items) <= position < len(items) else Unknown("an index out of range")
        if isinstance(index, TupleValue) and _is_slice(index):
            bounds = slice_bounds(index)
            if bounds is not None:
                picked = items[bounds]
                if isinstance(value, TupleValue):
                    return TupleValue(tuple(picked))
                thing = self.load(state, value) if isinstance(value, Ref) else None
                if isinstance(thing, Instance):
                    return self.sliced(thing, bounds, state)
                return self.allocate(state, ListObject(tuple(picked)))
            element = choice([(NO_GUARD, item) for item in items]) if items else None
            return self.allocate(state, ListObject(None, element))
        return choice([(NO_GUARD, item) for item in items]) if items else Unknown("an item of an empty list")

    def presence(self, thing: DictObject, key: Value | None, ref: Ref) -> tuple[object, ...]:
        """The symbol of the question whether a dict with unknown entries has a key."""
        what = thing.rest.number if isinstance(thing.rest, Tensor) else ("object", ref.oid)
        return ("has entry", what, key)

    def dict_value(self, thing: DictObject, index: Value, ref: Ref, state: State) -> Value:
        """``dict[index]``."""
        entries = dict(thing.entries)
        key: object = index if isinstance(index, Symbol) else (index.value if isinstance(index, Const) else None)
        if isinstance(index, (Const, Symbol)):
            try:
                if key in entries:
                    return entries[key]
            except TypeError:
                return Unknown("an unhashable key")
            if thing.rest is not None:
                return self._rest_entry(thing.rest, key)
            made = self._made_entry(thing.factory, state)
            if made is None:
                return Unknown("a missing key")
            state.heap[ref.oid] = replace(thing, entries=(*thing.entries, (key, made)))
            return made
        options = [(NO_GUARD, v) for v in entries.values()]
        if thing.rest is not None:
            options.append((NO_GUARD, thing.rest))
        return choice(options) if options else Unknown("an entry of an empty dict")

    def _made_entry(self, factory: Value | None, state: State) -> Value | None:
        """What a defaultdict puts under a missing key."""
        match factory:
            case Symbol(name="builtins.list" | "builtins.set"):
                return self.allocate(state, ListObject(()))
            case Symbol(name="builtins.dict"):
                return self.allocate(state, DictObject())
            case Symbol(name="builtins.int" | "builtins.float"):
                return Const(0)
            case FunctionValue():
                return self.call_function(factory, None, Arguments(), None, state)
        return None

    def _rest_entry(self, rest: Value, key: object) -> Value:
        if isinstance(rest, Tensor):
            number = self.number(("item", rest.number, key))
            return replace(rest, number=number, base=number, many=False)
        return rest

    def set_item(self, target: cst.Subscript, value: Value, state: State) -> None:
        """``target[index] = value``."""
        container = self.eval(target.value, state)
        index = self.index_of(target, state)
        if self._is_tensor(container):
            self._store_in_tensor(target, container, index, value, state)
            return
        if isinstance(container, Choice):
            self.put_in_some(container, index, value, state)
        else:
            self.put_item(container, index, value, state)

    def put_in_some(self, container: Choice, index: Value, value: Value, state: State) -> None:
        """One of several containers gets an item: each keeps its old one as well, unless it is certainly the one."""
        for guard, option in container.options:
            if exclusive(guard, state.guard):
                continue
            certain = guard <= state.guard
            old = self.item(option, index, state) if isinstance(option, Ref) and not certain else None
            self.put_item(option, index, value if old is None else choice([(guard, value), (NO_GUARD, old)]), state)

    def put_item(self, container: Value, index: Value, value: Value, state: State) -> None:
        if not isinstance(container, Ref):
            if not self.set_registered(container, index, value, state):
                self.stored_outside(container, value, state)
            return
        thing = self.load(state, container)
        own = self.own_entries(container, thing, state)
        if own is not None:
            container, thing = own, self.load(state, own)
        if isinstance(thing, DictObject):
            if isinstance(index, (Const, Symbol)):
                entries = dict(thing.entries)
                key = index if isinstance(index, Symbol) else index.value
                entries[key] = self.claimed(entries.get(key), value)
                state.heap[container.oid] = replace(thing, entries=tuple(entries.items()))
            else:
                rest = value if thing.rest is None else choice([(NO_GUARD, thing.rest), (NO_GUARD, value)])
                state.heap[container.oid] = replace(thing, rest=rest)
        elif isinstance(thing, ListObject):
            state.heap[container.oid] = self._replaced(thing, index, value, state)
        elif isinstance(thing, Instance):
            self.set_child(container, thing, index, value, state)

    def _is_tensor(self, container: Value) -> bool:
        """True for what is certainly a tensor, and no input that may be a list."""
        options = [option for _, option in options_of(container)]
        return all(isinstance(option, Tensor) and not option.collection for option in options)

    def _store_in_tensor(
        self, target: cst.Subscript, container: Value, index: Value, value: Value, state: State
    ) -> None:
        """Values go into a part of a tensor; an index that is all of it replaces the tensor."""
        parts = index.items if isinstance(index, TupleValue) and not _is_slice(index) else (index,)
        if all(part == Const(...) or part == ALL for part in parts):
            return
        by_tensor = any(self.has_tensor(part, state) or isinstance(part, Ref) for part in parts)
        spelling = "[tensor]=" if by_tensor else "[]="
        keywords = {"indices" if by_tensor else "index": Argument(index)}
        statement = self.current.statement
        source = statement.value if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None
        keywords["values" if by_tensor else "value"] = Argument(value, source)
        row = self.backend.operators[spelling]
        self.apply(row, spelling, Arguments([Argument(container, target.value)], keywords), target, state)

    def sliced(self, thing: Instance, part: slice, state: State) -> Value:
        """A slice of a Sequential or ModuleList (see ``module_containers``)."""
        raise NotImplementedError

    def set_child(self, ref: Ref, thing: Instance, index: Value, value: Value, state: State) -> None:
        """``container[index] = module`` (see ``module_containers``)."""
        raise NotImplementedError

    def set_registered(self, container: Value, index: Value, value: Value, state: State) -> bool:
        """``_modules[name] = module``; False for other values (see ``module_containers``)."""
        raise NotImplementedError

    def own_entries(self, value: Value, thing: object, state: State | None = None) -> Ref | None:
        """The dict behind an object of a class that derives from ``dict``; made when it is first set."""
        if not isinstance(thing, Instance) or not isinstance(value, Ref):
            return None
        found = thing.attributes.get(ENTRIES)
        if found is None and state is not None and DICT in self.mro(thing.cls):
            found = self.allocate(state, DictObject())
            state.heap[value.oid] = thing.with_attribute(ENTRIES, found)
        return found if isinstance(found, Ref) else None

    def claimed(self, old: Value | None, new: Value) -> Value:
        """What an entry is after it is set (see ``enrolment``)."""
        raise NotImplementedError

    def stored_outside(self, container: Value, value: Value, state: State) -> None:
        """An item of something that is not followed is set (see ``lifecycle``)."""

    def _replaced(self, thing: ListObject, index: Value, value: Value, state: State) -> ListObject:
        """A list after ``list[index] = value``."""
        bounds = slice_bounds(index)
        if thing.items is None or (isinstance(index, TupleValue) and bounds is None):
            given = self.element(value, -1, state) if isinstance(index, TupleValue) else value
            return self.loosened(thing, given)
        if bounds is not None:
            items = list(thing.items)
            given_items = self.items(value, state)
            try:
                items[bounds] = given_items if given_items is not None else []
            except ValueError:
                return thing
            return ListObject(tuple(items)) if given_items is not None else self.extended(thing, value, state)
        if isinstance(index, Const) and isinstance(index.value, int):
            position = index.value
            if -len(thing.items) <= position < len(thing.items):
                items = list(thing.items)
                items[position] = value
                return ListObject(tuple(items))
            return thing
        return ListObject(tuple(choice([(NO_GUARD, item), (NO_GUARD, value)]) for item in thing.items))

    def delete_item(self, ref: Ref, index: Value, state: State) -> None:
        """``del container[index]`` of a list or a dict; without a known index any item may be gone."""
        thing = self.load(state, ref)
        if isinstance(thing, DictObject):
            key = index.value if isinstance(index, Const) else index
            known = isinstance(index, (Const, Symbol))
            values = [value for _, value in thing.entries] + ([thing.rest] if thing.rest is not None else [])
            rest = thing.rest if known or not values else choice([(NO_GUARD, value) for value in values])
            entries = tuple(pair for pair in thing.entries if known and pair[0] != key)
            state.heap[ref.oid] = replace(thing, entries=entries, rest=rest)
        elif isinstance(thing, ListObject):
            part = self.part(index)
            left: list[Value] = list(thing.items or ())
            if thing.items is None or part is None:
                state.heap[ref.oid] = self.loosened(thing)
                return
            del left[part]
            state.heap[ref.oid] = ListObject(tuple(left))

    def part(self, index: Value) -> slice | None:
        """The items that an index or a slice of known bounds stands for."""
        if isinstance(index, Const) and isinstance(index.value, int):
            end = index.value + 1
            return slice(index.value, end if end else None)
        return slice_bounds(index)

    def unknown_tensor(self, reason: str, domain: Domain = Domain.FLOAT) -> Tensor:
        """A tensor of which only the domain is known."""
        number = self.fresh(reason)
        return Tensor(domain, number, number)


def _is_slice(index: TupleValue) -> bool:
    return len(index.items) == 4 and index.items[0] == Const("slice")


def slice_bounds(index: Value) -> slice | None:
    """The slice that an index is, if its bounds are known."""
    if not isinstance(index, TupleValue) or not _is_slice(index):
        return None
    bounds = [part.value for part in index.items[1:] if isinstance(part, Const)]
    known = len(bounds) == 3 and all(bound is None or isinstance(bound, int) for bound in bounds)
    return slice(*bounds) if known and bounds[2] != 0 else None


ALL = TupleValue((Const("slice"), Const(None), Const(None), Const(None)))
"""The index ``:``."""
