"""Sequential, ModuleList, ModuleDict and ``_modules``: how their children are set, moved, sliced and removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qlsp.analysis.items import NAMED_CONTAINERS, ORDERED_CONTAINERS, Items
from qlsp.analysis.machine import Arguments
from qlsp.values.state import DictObject, Instance, ListObject, State
from qlsp.values.value import (
    NO_GUARD,
    Bound,
    Const,
    Guard,
    Ref,
    TupleValue,
    Unknown,
    Value,
    choice,
    options_of,
)

SEQUENTIAL = "torch.nn.Sequential"
OTHERS = "*"
"""The attribute that stands for children of unknown number."""

REGISTRY = "_modules"
"""The dict in which a module keeps its children."""

VIEWS = frozenset({"keys", "values", "items"})


class ModuleContainers(Items):
    """What containers of modules do with their children, as torch 2.13 does it."""

    # --- constructors -------------------------------------------------------------------------------

    def sequential_children(self, ref: Ref, arguments: Arguments, state: State) -> None:
        """The children of a new Sequential: of a dict, or one after the other."""
        if len(arguments.positional) == 1 and isinstance(arguments.positional[0].value, Ref):
            thing = self.load(state, arguments.positional[0].value)
            if isinstance(thing, DictObject):
                self._named_entries(ref, thing, state)
                return
        if arguments.open:
            parts = [(NO_GUARD, self.marked_many(argument.value)) for argument in arguments.positional]
            self.set_attribute(ref, OTHERS, choice(parts), state)
            return
        for number, argument in enumerate(arguments.positional):
            self.set_attribute(ref, str(number), argument.value, state)

    def list_children(self, ref: Ref, given: Value, state: State) -> None:
        """The modules of an iterable go behind those that are there."""
        items = self.items(given, state)
        instance = self.instance(state, ref)
        if instance is None:
            return
        if items is None or OTHERS in instance.attributes:
            found = [self.comprehension_element(given, state)] if items is None else items
            for item in found:
                self._loosen(ref, self.marked_many(item), state)
            return
        start = len(self.children(instance, state))
        for number, item in enumerate(items, start=start):
            self.set_attribute(ref, str(number), item, state)

    def dict_children(self, ref: Ref, given: Value | None, arguments: Arguments, state: State) -> None:
        """The entries of a dict or of pairs become children."""
        thing = self.load(state, given) if isinstance(given, Ref) else None
        if isinstance(thing, DictObject):
            self._named_entries(ref, thing, state)
        elif isinstance(thing, Instance):
            for key, value in self.children(thing, state).items():
                self.set_attribute(ref, key, value, state)
        elif given is not None:
            pairs = self.items(given, state)
            for pair in pairs if pairs is not None else [self.element(given, -1, state)]:
                entry = self.items(pair, state)
                if entry is None or len(entry) != 2:
                    self._loosen(ref, Unknown("an entry of an unknown dict"), state)
                elif isinstance(entry[0], Const):
                    self.set_attribute(ref, str(entry[0].value), entry[1], state)
                else:
                    self._loosen(ref, self.marked_many(entry[1]), state)
        if arguments.open:
            self._loosen(ref, Unknown("entries of an open call"), state)

    def _named_entries(self, ref: Ref, thing: DictObject, state: State) -> None:
        for key, value in thing.entries:
            self.set_attribute(ref, str(key), value, state)
        if thing.rest is not None:
            self._loosen(ref, self.marked_many(thing.rest), state)

    def _loosen(self, ref: Ref, value: Value, state: State) -> None:
        """One more child at a place or under a name that is not known."""
        instance = self.instance(state, ref)
        if instance is not None:
            known = instance.attributes.get(OTHERS)
            others = value if known is None else choice([(NO_GUARD, known), (NO_GUARD, value)])
            self.set_attribute(ref, OTHERS, others, state)

    # --- reading ------------------------------------------------------------------------------------

    def element(self, value: Value, index: int, state: State) -> Value:
        """Some child of a container of unknown length."""
        thing = self.instance(state, value)
        if thing is not None and OTHERS in thing.attributes and self.native_base(thing) in ORDERED_CONTAINERS:
            children = list(self.children(thing, state).values())
            if 0 <= index < len(children):
                return children[index]
            return choice([(NO_GUARD, child) for child in (*children, thing.attributes[OTHERS])])
        return super().element(value, index, state)

    def sliced(self, thing: Instance, part: slice, state: State) -> Value:
        """A slice: a Sequential keeps the names of its children, a ModuleList counts anew."""
        picked = list(self.children(thing, state).items())[part]
        if self.native_base(thing) != SEQUENTIAL:
            picked = [(str(number), child) for number, (_, child) in enumerate(picked)]
        return self.allocate(state, replace(thing, attributes=dict(picked)))

    def joined(self, left: Value, right: Value, state: State) -> Value | None:
        """``container + container``: a new one with the children of both; None for other values."""
        mine, theirs = self.instance(state, left), self.instance(state, right)
        if mine is None or self.native_base(mine) not in ORDERED_CONTAINERS:
            return None
        items, others = self.items(left, state), self.items(right, state)
        if items is None or others is None or (theirs is None and not self.is_list(right, state)):
            return Unknown("a sum of modules of unknown number")
        children = {str(number): child for number, child in enumerate((*items, *others))}
        return self.allocate(state, Instance(mine.cls, children))

    def dict_view(self, instance: Instance, name: str, state: State) -> Value:
        """``keys()``, ``values()`` or ``items()`` of a ModuleDict or of ``_modules``."""
        pairs = [(Const(key), value) for key, value in self.children(instance, state).items()]
        views: dict[str, list[Value]] = {
            "keys": [key for key, _ in pairs],
            "values": [value for _, value in pairs],
            "items": [TupleValue(pair) for pair in pairs],
        }
        if OTHERS not in instance.attributes:
            return TupleValue(tuple(views[name]))
        key: Value = Unknown("a key of an unknown dict")
        children = [(NO_GUARD, value) for value in (*(v for _, v in pairs), instance.attributes[OTHERS])]
        some: dict[str, Value] = {"keys": key, "values": choice(children), "items": TupleValue((key, choice(children)))}
        return self.allocate(state, ListObject(None, some[name]))

    # --- writing ------------------------------------------------------------------------------------

    def set_child(self, ref: Ref, thing: Instance, index: Value, value: Value, state: State) -> None:
        """``container[index] = module``; under an index that is not known it may be any child."""
        base = self.native_base(thing)
        if base not in ORDERED_CONTAINERS and base not in NAMED_CONTAINERS:
            return
        name = self._name_of(thing, index, state)
        if name is not None:
            self.set_attribute(ref, name, value, state)
            return
        changed = {
            key: choice([(NO_GUARD, child), (NO_GUARD, value)]) for key, child in self.children(thing, state).items()
        }
        state.heap[ref.oid] = replace(thing, attributes={**thing.attributes, **changed})
        if base in NAMED_CONTAINERS:
            self._loosen(ref, self.marked_many(value), state)

    def _name_of(self, thing: Instance, index: Value, state: State) -> str | None:
        if not isinstance(index, Const):
            return None
        if self.native_base(thing) in ORDERED_CONTAINERS and isinstance(index.value, int):
            names = list(self.children(thing, state))
            if OTHERS in thing.attributes:
                return None
            return names[index.value] if -len(names) <= index.value < len(names) else str(index.value)
        return str(index.value)

    def append_child(self, ref: Ref, instance: Instance, arguments: Arguments, state: State) -> Value | None:
        """``container.append(module)``."""
        given = arguments.get(0, "module")
        if given is None or self.native_base(instance) not in ORDERED_CONTAINERS:
            return None
        if self.loop_depth or OTHERS in instance.attributes:
            self._loosen(ref, given, state)
        else:
            self.set_attribute(ref, str(len(self.children(instance, state))), given, state)
        return ref

    def extend_children(self, ref: Ref, instance: Instance, arguments: Arguments, state: State) -> Value | None:
        """``container.extend(modules)`` and ``container += modules``."""
        given = arguments.get(0, "modules")
        if given is None or self.native_base(instance) not in ORDERED_CONTAINERS:
            return None
        self.list_children(ref, given, state)
        return ref

    def insert_child(self, ref: Ref, instance: Instance, arguments: Arguments, state: State) -> Value | None:
        """``container.insert(index, module)``: those behind move on by one number."""
        index, given = arguments.get(0, "index"), arguments.get(1, "module")
        if given is None or self.native_base(instance) not in ORDERED_CONTAINERS:
            return None
        children = list(self.children(instance, state).values())
        if self.loop_depth or OTHERS in instance.attributes or not _is_number(index):
            self._keep_some(ref, instance, [*children, given], state)
        else:
            assert isinstance(index, Const)
            children.insert(index.value, given)
            self._renumber(ref, instance, children, state)
        return ref

    def pop_child(self, ref: Ref, instance: Instance, arguments: Arguments, state: State) -> Value | None:
        """``container.pop(index)``."""
        index = arguments.get(0, "key")
        if self.native_base(instance) not in ORDERED_CONTAINERS | NAMED_CONTAINERS or index is None:
            return None
        value = self.item(ref, index, state)
        self.remove_child(ref, instance, index, state)
        return value

    def clear_children(self, ref: Ref, instance: Instance, arguments: Arguments, state: State) -> Value | None:
        """``container.clear()``."""
        if self.native_base(instance) not in NAMED_CONTAINERS:
            return None
        names = {*self.children(instance, state), OTHERS}
        kept = {key: value for key, value in instance.attributes.items() if key not in names}
        state.heap[ref.oid] = replace(instance, attributes=kept)
        return Const(None)

    def update_children(self, ref: Ref, instance: Instance, arguments: Arguments, state: State) -> Value | None:
        """``container.update(modules)``."""
        if self.native_base(instance) not in NAMED_CONTAINERS:
            return None
        self.dict_children(ref, arguments.get(0, "modules"), arguments, state)
        return Const(None)

    def remove_child(self, ref: Ref, instance: Instance, index: Value, state: State) -> None:
        """``del container[index]``; those behind move up. Without a known index any child may be gone."""
        children = self.children(instance, state)
        if self.native_base(instance) in NAMED_CONTAINERS:
            if isinstance(index, Const) and not self.loop_depth:
                self.remove_attribute(ref, str(index.value), state)
            else:
                self._keep_some(ref, instance, list(children.values()), state)
            return
        left = list(children.values())
        part = self.part(index)
        if part is None or self.loop_depth or OTHERS in instance.attributes:
            self._keep_some(ref, instance, left, state)
            return
        del left[part]
        self._renumber(ref, instance, left, state)

    def delete_attribute(self, target: Value, name: str, state: State) -> None:
        """``del target.name``."""
        for _, option in options_of(target):
            if isinstance(option, Ref):
                self.remove_attribute(option, name, state)

    def remove_attribute(self, ref: Ref, name: str, state: State) -> None:
        """``del object.name``."""
        instance = self.instance(state, ref)
        if instance is not None and name in instance.attributes:
            kept = {key: value for key, value in instance.attributes.items() if key != name}
            state.heap[ref.oid] = replace(instance, attributes=kept)

    def _renumber(self, ref: Ref, instance: Instance, children: Sequence[Value], state: State) -> None:
        old = self.children(instance, state)
        kept = {key: value for key, value in instance.attributes.items() if key not in old}
        numbered = {str(number): child for number, child in enumerate(children)}
        state.heap[ref.oid] = replace(instance, attributes={**kept, **numbered})

    def _keep_some(self, ref: Ref, instance: Instance, children: Sequence[Value], state: State) -> None:
        """The container holds an unknown number of these children."""
        old = self.children(instance, state)
        kept = {key: value for key, value in instance.attributes.items() if key not in old}
        parts: list[tuple[Guard, Value]] = [(NO_GUARD, child) for child in children]
        if OTHERS in kept:
            parts.append((NO_GUARD, kept[OTHERS]))
        others = {OTHERS: choice(parts)} if parts else {}
        state.heap[ref.oid] = replace(instance, attributes={**kept, **others})

    def delete(self, container: Value, index: Value, state: State) -> None:
        """``del container[index]`` of a list, a dict or a container of modules."""
        for _, option in options_of(container):
            if isinstance(option, Bound) and option.name == REGISTRY and isinstance(option.receiver, Ref):
                if isinstance(index, Const):
                    self.remove_attribute(option.receiver, str(index.value), state)
                continue
            thing = self.instance(state, option)
            if isinstance(option, Ref) and thing is not None:
                if self.native_base(thing) in ORDERED_CONTAINERS | NAMED_CONTAINERS:
                    self.remove_child(option, thing, index, state)
            elif isinstance(option, Ref):
                self.delete_item(option, index, state)

    # --- the registry -------------------------------------------------------------------------------

    def registry(self, value: Value, state: State) -> Instance | None:
        """The module whose ``_modules`` a value is."""
        if isinstance(value, Bound) and value.name == REGISTRY:
            return self.instance(state, value.receiver)
        return None

    def items(self, value: Value, state: State) -> list[Value] | None:
        """``_modules`` has the names of the children."""
        owner = self.registry(value, state)
        if owner is None:
            return super().items(value, state)
        return [Const(name) for name in self.children(owner, state)] if OTHERS not in owner.attributes else None

    def item(self, value: Value, index: Value, state: State) -> Value:
        """``_modules[name]``."""
        owner = self.registry(value, state)
        if owner is None:
            return super().item(value, index, state)
        children = self.children(owner, state)
        if isinstance(index, Const):
            return children.get(str(index.value), Unknown("a child that is not set in view"))
        return choice([(NO_GUARD, v) for v in children.values()]) if children else Unknown("a child of unknown name")

    def set_registered(self, container: Value, index: Value, value: Value, state: State) -> bool:
        """``_modules[name] = module``; False for other values."""
        if self.registry(container, state) is None or not isinstance(index, Const):
            return False
        assert isinstance(container, Bound)
        self.assign_attribute(container.receiver, str(index.value), value, state)
        return True

    def registry_method(self, value: Value, name: str, arguments: Arguments, state: State) -> Value | None:
        """A method of ``_modules``; None for other values."""
        owner = self.registry(value, state)
        if owner is None:
            return None
        if name in VIEWS:
            return self.dict_view(owner, name, state)
        key = arguments.get(0, "key")
        if name == "get" and isinstance(key, Const):
            default = arguments.get(1, "default")
            missing = default if default is not None else Const(None)
            return self.children(owner, state).get(str(key.value), missing)
        if name == "pop" and isinstance(key, Const) and isinstance(value, Bound) and isinstance(value.receiver, Ref):
            found = self.item(value, key, state)
            self.remove_attribute(value.receiver, str(key.value), state)
            return found
        return Unknown(f"_modules.{name}()")


def _is_number(index: Value | None) -> bool:
    return isinstance(index, Const) and isinstance(index.value, int)
