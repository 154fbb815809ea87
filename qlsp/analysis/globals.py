"""Global names, qualified names and classes: from a name to its value."""

from __future__ import annotations

import sys

import libcst as cst

from qlsp.analysis.machine import Frame, Machine
from qlsp.analysis.program import BUILTINS, LIBRARIES, ClassModel, FunctionModel, ModuleModel, definitions
from qlsp.syntax.names import Binding
from qlsp.syntax.parse import ChunkError, Unit
from qlsp.values.state import State
from qlsp.values.value import ClassValue, FunctionValue, SpanId, Symbol, Unknown, Value

WRAPPER = "torch.ao.quantization.QuantWrapper"


class Globals(Machine):
    """Name resolution. Global assignments are evaluated once, on demand, in a state of their own."""

    _globals: dict[tuple[str, str], Value]
    _orders: dict[tuple[SpanId, int], list[ClassModel | Symbol | Unknown]]
    running: dict[str, dict[str, Value]]

    def eval(self, node: cst.BaseExpression, state: State) -> Value:
        """Evaluate an expression (see ``expressions``)."""
        raise NotImplementedError

    def execute(self, statement: cst.BaseStatement, state: State) -> State | None:
        """Execute a statement (see ``statements``)."""
        raise NotImplementedError

    def decorated(self, model: FunctionModel) -> Value:
        """A function as its name gives it (see ``classes``)."""
        raise NotImplementedError

    def attribute(self, value: Value, name: str, state: State) -> Value:
        """Read an attribute (see ``objects``)."""
        raise NotImplementedError

    def global_value(self, module: ModuleModel, name: str) -> Value:
        """What a global name of a module stands for."""
        running = self.running.get(module.path)
        if running is not None and name in running:
            return running[name]
        key = (module.path, name)
        if self.backend.renamed(f"{module.name}.{name}"):
            return Symbol(self.backend.canonical(f"{module.name}.{name}"))
        if key not in self._globals:
            self._globals[key] = Unknown(f"'{name}' refers to itself")
            self._globals[key] = self._compute(module, name)
        return self._globals[key]

    def _compute(self, module: ModuleModel, name: str) -> Value:
        binders = module.binders.get(name, [])
        binding = [(unit.index, unit, "") for unit in binders]
        binding += [(unit.index, unit, star) for unit, star in module.star_units]
        for _, unit, star in sorted(binding, key=lambda each: each[0], reverse=True):
            if star:
                value = self._behind_star(module, star, name)
            elif (found := module.bound_in(unit, name)) is not None and found.typing and len(binders) > 1:
                value = None
            else:
                value = self._bound_by(module, unit, name)
            if value is not None:
                return value
        if name in BUILTINS:
            return Symbol(f"builtins.{name}")
        return Unknown(f"'{name}' is not defined in view")

    def _behind_star(self, module: ModuleModel, star: str, name: str) -> Value | None:
        """What ``from module import *`` binds a name to: what the module lists, else names that are not private."""
        found = self.finder.find(star, module.path)
        listed = found.exports if found is not None else None
        if name not in listed if listed is not None else name.startswith("_"):
            return None
        value = self.qualified(f"{star}.{name}", module)
        return value if not isinstance(value, (Symbol, Unknown)) or self.known(value) else None

    def known(self, value: Value) -> bool:
        """True for a library name that the table has a row for."""
        if not isinstance(value, Symbol):
            return False
        table = self.backend
        return (
            value.name in table.functions
            or value.name in table.modules
            or value.name in table.functional_classes
            or value.name == WRAPPER
            or value.name in table.lifecycle_calls
            or value.name in table.qconfigs
            or value.name in table.qconfig_makers
        )

    def _bound_by(self, module: ModuleModel, unit: Unit, name: str) -> Value | None:
        try:
            node = unit.node
        except ChunkError:
            return Unknown(f"'{name}' is defined in a part that does not parse")
        binding = module.bound_in(unit, name)
        imported = self._imported(module, binding) if binding is not None else None
        if isinstance(imported, (ClassValue, FunctionValue)):
            return imported
        for inner in definitions(node):
            value = self.definition_value(module, unit, inner, name)
            if isinstance(value, FunctionValue):
                return self.decorated(self.functions[value.span])
            if value is not None:
                return value
        if imported is not None:
            return imported
        if "import" in unit.text and name in module.imports:
            return self.qualified(module.imports[name], module)
        return self._assigned(module, unit, node, name)

    def _imported(self, module: ModuleModel, binding: Binding) -> Value:
        """What an import binds a name to; nothing is known where it may fail and a handler binds something else."""
        value = self.qualified(binding.target, module)
        others = [self.qualified(other, module) for other in binding.others]
        if all(other == value for other in others):
            return value
        ours = [isinstance(each, (ClassValue, FunctionValue)) for each in (value, *others)]
        if any(ours) and not (ours[0] and all(self._is_there(each, module) for each in binding.behind)):
            return Unknown(f"'{binding.name}' is imported from one of several places")
        return value

    def _is_there(self, target: str, module: ModuleModel) -> bool:
        """Can a target be imported, as far as the files in view tell?"""
        top = target.partition(".")[0]
        if top in LIBRARIES or top in sys.stdlib_module_names:
            return True
        parts = target.split(".")
        prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        return any(self.finder.find(prefix, module.path) is not None for prefix in prefixes)

    def definition_value(
        self, module: ModuleModel, unit: Unit, node: cst.BaseStatement, name: str
    ) -> Value | None:
        """The value of a top-level function or class definition of this name."""
        if isinstance(node, cst.ClassDef) and node.name.value == name:
            return self.class_value(module.class_model(node, unit))
        if isinstance(node, cst.FunctionDef) and node.name.value == name:
            return self.function_of(node, unit, module)
        return None

    def function_of(
        self,
        node: cst.FunctionDef | cst.Lambda,
        unit: Unit,
        module: ModuleModel,
        owner: ClassModel | None = None,
        closure: int = 0,
    ) -> FunctionValue:
        """The value of a function definition."""
        name = node.name.value if isinstance(node, cst.FunctionDef) else "<lambda>"
        span = SpanId(unit.path, unit.index, unit.ordinal(node))
        return self.function_value(FunctionModel(span, name, node, unit, module, owner), closure)

    def _assigned(self, module: ModuleModel, unit: Unit, node: cst.BaseStatement, name: str) -> Value | None:
        state = State()
        saved, self.frame = self.frame, Frame(unit, module, "<module>")
        facts, self.facts = self.facts, None
        try:
            after = self.execute(node, state)
        finally:
            self.frame, self.facts = saved, facts
        if after is None or name not in after.names:
            return None
        self.static_heap.update(after.heap)
        return after.names[name]

    def qualified(self, name: str, importer: ModuleModel) -> Value:
        """What a dotted name stands for: something of the project, else the library's canonical name."""
        if self.backend.renamed(name):
            return Symbol(self.backend.canonical(name))
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            module = self.finder.find(".".join(parts[:length]), importer.path)
            if module is None:
                continue
            rest = parts[length:]
            if not rest:
                return self._bound_in_package(parts, importer) or Symbol(name)
            value = self.global_value(module, rest[0])
            for attribute in rest[1:]:
                value = self.attribute(value, attribute, State())
            return value
        return Symbol(self.backend.canonical(name))

    def _bound_in_package(self, parts: list[str], importer: ModuleModel) -> Value | None:
        """What a package binds under the name of one of its modules, which then hides the module: a function that
        ``from .name import *`` brings in."""
        package = self.finder.find(".".join(parts[:-1]), importer.path) if len(parts) > 1 else None
        if package is None or not (package.stars or parts[-1] in package.binders):
            return None
        value = self.global_value(package, parts[-1])
        return value if isinstance(value, (FunctionValue, ClassValue)) else None

    def mro(self, value: ClassValue | Symbol) -> list[ClassModel | Symbol | Unknown]:
        """C3 linearisation, or depth first where the bases contradict each other."""
        if isinstance(value, Symbol):
            return [value]
        key = (value.span, value.closure)
        if key not in self._orders:
            model = self.class_model(value)
            self._orders[key] = [model]
            self._orders[key] = self._linearise(model)
        return self._orders[key]

    def _linearise(self, model: ClassModel) -> list[ClassModel | Symbol | Unknown]:
        bases = [self._base(model, expression) for expression in model.base_expressions]
        orders: list[list[ClassModel | Symbol | Unknown]] = []
        for base in bases:
            if isinstance(base, (ClassValue, Symbol)):
                orders.append(list(self.mro(base)))
            else:
                orders.append(
                    [base if isinstance(base, Unknown) else Unknown("a base class of unknown kind")]
                )
        orders.append([order[0] for order in orders])
        result: list[ClassModel | Symbol | Unknown] = [model]
        while any(orders):
            orders = [order for order in orders if order]
            head = next((o[0] for o in orders if not any(o[0] in other[1:] for other in orders)), None)
            if head is None:
                head = orders[0][0]
            result.append(head)
            orders = [[entry for entry in order if entry != head] for order in orders]
        return result

    def _base(self, model: ClassModel, expression: cst.BaseExpression) -> Value:
        saved, self.frame = self.frame, Frame(model.unit, model.module, model.name, closure=model.closure)
        try:
            if isinstance(expression, cst.Subscript):
                expression = expression.value
            return self.eval(expression, State())
        finally:
            self.frame = saved
