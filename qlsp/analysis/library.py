"""Library calls: torch functions and modules by their rows, Python builtins, container methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import libcst as cst

from qlsp.analysis.conditions import collection_symbol
from qlsp.analysis.expressions import number_of
from qlsp.analysis.facts import FunctionalUse
from qlsp.analysis.globals import WRAPPER
from qlsp.analysis.items import NAMED_CONTAINERS
from qlsp.analysis.machine import Argument, Arguments
from qlsp.analysis.module_containers import OTHERS, VIEWS
from qlsp.analysis.objects import MODULE_ATTRIBUTES
from qlsp.analysis.wrappers import Wrappers
from qlsp.ops.spec import OpSpec, Role
from qlsp.values.state import DictObject, Instance, ListObject, State
from qlsp.values.value import (
    A_NUMBER,
    NO_GUARD,
    Bound,
    Choice,
    ClassValue,
    Const,
    Domain,
    FunctionValue,
    Guard,
    RecordType,
    RecordValue,
    Ref,
    Super,
    Symbol,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    choice,
    is_number,
)

CREATORS = frozenset(
    [
        "tensor",
        "as_tensor",
        "from_numpy",
        "zeros",
        "ones",
        "empty",
        "full",
        "rand",
        "randn",
        "randint",
        "randperm",
        "arange",
        "linspace",
        "logspace",
        "eye",
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
        "rand_like",
        "randn_like",
        "randint_like",
        "normal",
        "bernoulli",
        "scalar_tensor",
        "asarray",
        "tril_indices",
        "triu_indices",
        "hann_window",
        "multinomial",
    ]
)
RETURN_SELF = frozenset(
    [
        "eval",
        "train",
        "to",
        "cuda",
        "cpu",
        "float",
        "half",
        "double",
        "bfloat16",
        "type",
        "requires_grad_",
        "apply",
        "share_memory",
        "to_empty",
        "xpu",
        "compile",
    ]
)
TENSOR_NUMBER_METHODS = frozenset(
    [
        "size",
        "dim",
        "numel",
        "item",
        "tolist",
        "nelement",
        "ndimension",
        "stride",
        "get_device",
        "is_contiguous",
        "is_floating_point",
        "element_size",
        "q_scale",
        "q_zero_point",
        "qscheme",
        "backward",
        "register_hook",
        "retain_grad",
        "numpy",
        "storage",
        "data_ptr",
        "untyped_storage",
        "is_complex",
        "is_signed",
        "storage_offset",
    ]
)
LITERAL_CREATORS = frozenset({"tensor", "as_tensor", "asarray"})
INTEGER_DTYPES = frozenset(
    f"torch.{name}"
    for name in (
        "long",
        "int",
        "short",
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint16",
        "uint32",
        "uint64",
    )
)
INTEGER_CREATORS = frozenset({"randint", "randperm", "tril_indices", "triu_indices"})
PREDICATES = frozenset(
    {
        "torch.is_tensor",
        "torch.jit.is_scripting",
        "torch.jit.is_tracing",
        "torch.compiler.is_compiling",
        "torch.compiler.is_dynamo_compiling",
        "torch._dynamo.is_compiling",
        "torch.onnx.is_in_onnx_export",
        "torch.overrides.has_torch_function",
        "torch.overrides.has_torch_function_unary",
        "torch.overrides.has_torch_function_variadic",
    }
)
NO_TENSOR = frozenset(
    f"torch.{name}"
    for name in (
        "Generator",
        "Size",
        "broadcast_shapes",
        "cuda.is_available",
        "device",
        "finfo",
        "get_default_dtype",
        "iinfo",
        "is_complex",
        "is_floating_point",
        "is_grad_enabled",
        "is_inference_mode_enabled",
        "numel",
        "promote_types",
        "result_type",
    )
)
"""What gives no tensor."""
DICT_METHODS = frozenset({"items", "values", "keys", "get", "pop"})
PARAMETER_LISTS = {"parameters": False, "buffers": False, "named_parameters": True, "named_buffers": True}
NAMED_LISTS = {"modules": False, "children": False, "named_modules": True, "named_children": True}

QUANTIZED_MODULES = ("torch.ao.nn.quantized.", "torch.ao.nn.intrinsic.quantized.")
FUNCTIONAL_ATTRIBUTES = MODULE_ATTRIBUTES | {"activation_post_process", "from_float", "weight_fake_quant"}
"""What a FloatFunctional or QFunctional has besides its operations."""
OBSERVER_NAME = "activation_post_process"
"""The child of a FloatFunctional that prepare replaces; before, it is an Identity."""

Q = "torch.ao.quantization."
PARALLEL = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel"})
PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer"})


class Library(Wrappers):
    """What the library does."""

    def library_call(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """Call a library name: a row, a class, a builtin, or something the table does not know."""
        if name.startswith("builtins."):
            return self.builtin(name.removeprefix("builtins."), arguments, node, state)
        handled = self.lifecycle_call(name, arguments, node, state)
        if handled is not None:
            return handled
        row = self.backend.functions.get(name)
        if row is not None and (row.sequence or not name.startswith("operator.") or self._on_tensors(arguments, state)):
            return self.apply(row, name, arguments, node, state)
        if name.startswith("torch.Tensor.") and arguments.positional:
            method = Bound(arguments.positional[0].value, name.rpartition(".")[2])
            rest = Arguments(arguments.positional[1:], arguments.keywords, arguments.open)
            return self.native_method(method, rest, node, state)
        if name in self.backend.functional_classes or name in self.backend.modules or name == WRAPPER:
            return self.library_instance(name, arguments, node, state)
        standard = self.standard_library(name, arguments, node, state)
        if standard is not None:
            return standard
        if name in PARAMETERS:
            return self.unknown_tensor("a parameter")
        if name in PREDICATES:
            return self._predicate(name, arguments)
        if name in NO_TENSOR:
            return number_of(name, *(argument.value for argument in arguments.positional))
        if name == "torch.jit.isinstance":
            return self._builtin_isinstance(arguments, node, state)
        if name.startswith("torch."):
            return self._torch_call(name, arguments, node, state)
        symbol = ("call", name, *(self.key_of(a.value, state) for a in arguments.positional))
        return Unknown(f"{name} is not part of the project", symbol)

    def _on_tensors(self, arguments: Arguments, state: State) -> bool:
        """May an operand be a tensor?"""
        values = [argument.value for argument in arguments.positional]
        return any(self.has_tensor(value, state) or isinstance(value, Unknown) for value in values)

    def _torch_call(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        last = name.rpartition(".")[2]
        if name.startswith(("torch.nn.", "torch.ao.nn.")) and last[:1].isupper():
            return self.library_instance(name, arguments, node, state)
        if last in CREATORS:
            return self.unknown_tensor(name, self._created_domain(last, arguments, state))
        found = list(self.tensors_in(arguments, state))
        if found and all(isinstance(t, Tensor) and t.domain is Domain.FLOAT for t in found):
            return self.unknown_tensor(name)
        return Unknown(f"{name} has no row in the table")

    def _predicate(self, name: str, arguments: Arguments) -> Value:
        """Questions whose answer does not depend on data."""
        if name != "torch.is_tensor":
            return Const(False)
        value = arguments.get(0, "obj")
        if isinstance(value, Tensor) and value.collection:
            return Unknown("is an input a tensor or a list", collection_symbol(value, {"torch.Tensor"}))
        if isinstance(value, Choice):
            return choice([(g, self._predicate(name, Arguments.of(option))) for g, option in value.options])
        if isinstance(value, Unknown) and not is_number(value):
            return Unknown("is_tensor() of an unknown value")
        return Const(isinstance(value, Tensor))

    def _created_domain(self, creator: str, arguments: Arguments, state: State) -> Domain:
        """What a creator's dtype says; without one, ``arange(4)``, ``tensor([1, 2])`` and kin hold integers."""
        if creator in INTEGER_CREATORS:
            return Domain.INTEGER
        dtype = arguments.keywords.get("dtype")
        if dtype is not None:
            name = dtype.value.name if isinstance(dtype.value, Symbol) else ""
            return Domain.INTEGER if name in INTEGER_DTYPES else Domain.FLOAT
        values = [argument.value for argument in arguments.positional]
        if creator == "arange" and values and all(_whole(value) for value in values):
            return Domain.INTEGER
        if creator in LITERAL_CREATORS and values and self._holds_integers(values[0], state):
            return Domain.INTEGER
        return Domain.FLOAT

    def _holds_integers(self, value: Value, state: State) -> bool:
        """Is a value a number, or a list of numbers, without a fraction?"""
        thing = self.load(state, value) if isinstance(value, Ref) else value
        items = thing.items if isinstance(thing, (ListObject, TupleValue)) else None
        if items is None:
            return _whole(value)
        return bool(items) and all(self._holds_integers(item, state) for item in items)

    def library_instance(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """An instance of a library module class."""
        shown = [(str(i), a.value) for i, a in enumerate(arguments.positional)]
        shown += [(key, a.value) for key, a in sorted(arguments.keywords.items())]
        ref = self.new_instance(state, Instance(Symbol(name), {}, tuple(shown), self.span(node)))
        self.native_init(ref, name, arguments, state)
        return ref

    # --- constructors -------------------------------------------------------------------------------

    def native_init(self, ref: Ref, base: str, arguments: Arguments, state: State) -> None:
        """What a library constructor stores: children of containers, a stub's qconfig."""
        match base:
            case "torch.nn.Sequential":
                self.sequential_children(ref, arguments, state)
            case "torch.nn.ModuleList" | "torch.nn.ParameterList":
                given = arguments.get(0, "modules")
                if given is not None:
                    self.list_children(ref, given, state)
            case "torch.nn.ModuleDict" | "torch.nn.ParameterDict":
                self.dict_children(ref, arguments.get(0, "modules"), arguments, state)
            case _ if base == WRAPPER:
                inner = arguments.get(0, "module")
                instance = self.instance(state, ref)
                span = instance.created if instance is not None else None
                for name, cls in (("quant", "QuantStub"), ("dequant", "DeQuantStub")):
                    stub = self.allocate(state, Instance(Symbol(Q + cls), {}, (), span))
                    self.set_attribute(ref, name, stub, state)
                if inner is not None:
                    self.set_attribute(ref, "module", inner, state)
                    wrapped = self.instance(state, inner)
                    if wrapped is not None and "qconfig" in wrapped.attributes:
                        self.set_attribute(ref, "qconfig", wrapped.attributes["qconfig"], state)
            case _ if base in PARALLEL:
                inner = arguments.get(0, "module")
                if inner is not None:
                    self.set_attribute(ref, "module", inner, state)
            case _ if base in (f"{Q}QuantStub", f"{Q}DeQuantStub"):
                qconfig = arguments.get(0, "qconfig")
                if qconfig is not None and qconfig != Const(None):
                    self.set_attribute(ref, "qconfig", qconfig, state)

    # --- forward of library modules -----------------------------------------------------------------

    def native_forward(self, ref: Ref, base: str, arguments: Arguments, node: cst.Call | None, state: State) -> Value:
        """The forward of a library module, or of a project class that inherits it."""
        for patch in self.patches.get((base.rpartition(".")[2], "forward"), ()):
            if self.patched_class(patch) == Symbol(base):
                return Unknown(f"forward of {base} is set outside the class")
        row = self.backend.modules.get(base)
        if row is not None and node is not None:
            return self.apply(row, base, arguments, node, state, ref)
        instance = self.instance(state, ref)
        assert instance is not None
        if base in self.backend.functional_classes and node is not None:
            self._functional_use(ref, base, "forward", None, arguments, node, state)
        if base == "torch.nn.Sequential":
            return self._run_sequential(instance, arguments, node, state)
        if base == WRAPPER:
            return self._run_wrapper(instance, arguments, node, state)
        if base in PARALLEL and "module" in instance.attributes and node is not None:
            return self.call(instance.attributes["module"], arguments, node, state)
        if base.startswith(QUANTIZED_MODULES):
            return Unknown(f"{base} in a model that is written quantized")
        found = list(self.tensors_in(arguments, state))
        if found and all(isinstance(t, Tensor) and t.domain is Domain.FLOAT for t in found):
            if base in ("torch.nn.Module",):
                return Unknown("forward is not defined in view")
            return self.unknown_tensor(base)
        return Unknown(f"{base} has no row in the table")

    def _run_sequential(self, instance: Instance, arguments: Arguments, node: cst.Call | None, state: State) -> Value:
        if node is None:
            return Unknown("a Sequential called without syntax")
        if OTHERS in instance.attributes:
            return self._run_some(instance, arguments, node, state)
        modules = list(self.children(instance, state).values())
        current = arguments
        value: Value = arguments.positional[0].value if arguments.positional else Unknown("a call without input")
        saved = self.path
        span = self.span(node)
        try:
            for number, module in enumerate(modules):
                self.path = (*saved, (span, number))
                value = self.call(module, current, node, state)
                current = Arguments([Argument(value)])
        finally:
            self.path = saved
        return value

    def _run_some(self, instance: Instance, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A Sequential of unknown length: any of its children runs, any number of times."""
        children = [*self.children(instance, state).values(), instance.attributes[OTHERS]]
        module = choice([(NO_GUARD, child) for child in children])
        value: Value = arguments.positional[0].value if arguments.positional else Unknown("a call without input")
        span = self.span(node)

        def run(value: Value, arm: State) -> Value:
            return self.unshared(self.call(module, Arguments([Argument(value)]), node, arm))

        return self.passed_on(value, run, span, state)

    def _run_wrapper(self, instance: Instance, arguments: Arguments, node: cst.Call | None, state: State) -> Value:
        if node is None:
            return Unknown("a QuantWrapper called without syntax")
        saved = self.path
        span = self.span(node)
        current = arguments
        value: Value = Unknown("a call without input")
        try:
            for number, name in enumerate(("quant", "module", "dequant")):
                self.path = (*saved, (span, number))
                module = instance.attributes.get(name, Unknown("an empty QuantWrapper"))
                value = self.call(module, current, node, state)
                current = Arguments([Argument(value)])
        finally:
            self.path = saved
        return value

    # --- methods of library objects -----------------------------------------------------------------

    def native_method(self, function: Bound, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A method of a tensor, a library object, a list, a dict or a constant."""
        receiver, name = function.receiver, function.name
        if isinstance(receiver, Super):
            return self._native_super(receiver, name, arguments, node, state)
        if isinstance(receiver, (RecordValue, RecordType)):
            return self.record_method(receiver, name, arguments, state)
        if isinstance(receiver, Tensor):
            return self._tensor_method(receiver, name, arguments, node, state)
        if isinstance(receiver, Ref):
            thing = self.load(state, receiver)
            entries = self.own_entries(receiver, thing, state)
            if entries is not None:
                receiver, thing = entries, self.load(state, entries)
            if isinstance(thing, Instance):
                return self._instance_method(receiver, thing, name, arguments, node, state)
            if thing is not None:
                return self.container_method(receiver, thing, name, arguments, node, state)
        if isinstance(receiver, FunctionValue) and name == "__get__" and arguments.positional:
            return Bound(arguments.positional[0].value, receiver.name, receiver)
        registered = self.registry_method(receiver, name, arguments, state)
        if registered is not None:
            return registered
        return self.constant_method(receiver, name, arguments, state)

    def _native_super(self, value: Super, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        instance = self.instance(state, value.receiver)
        if instance is None or not isinstance(value.receiver, Ref):
            return Unknown("super() of an unknown object")
        base = self.native_base(instance)
        if name == "__init__":
            if base is not None:
                self.native_init(value.receiver, base, arguments, state)
                shown = tuple((str(i), a.value) for i, a in enumerate(arguments.positional))
                current = self.instance(state, value.receiver)
                if current is not None and base in self.backend.modules:
                    from dataclasses import replace

                    state.heap[value.receiver.oid] = replace(current, arguments=shown)
            return Const(None)
        if name == "__call__" and base is not None:
            return self.call_forward(value.receiver, arguments, node, state)
        if name == "forward" and base is not None:
            return self.native_forward(value.receiver, base, arguments, node, state)
        return self._instance_method(value.receiver, instance, name, arguments, node, state)

    def method_of_tensors(self, function: Choice, arguments: Arguments, node: cst.Call, state: State) -> Value | None:
        """A tensor method of the table whose receiver has alternatives: one call with these alternatives."""
        receivers: list[tuple[Guard, Value]] = []
        names: set[str] = set()
        for guard, option in function.options:
            if not isinstance(option, Bound) or not isinstance(option.receiver, Tensor):
                return None
            if option.receiver.collection and option.name in DICT_METHODS:
                return None
            receivers.append((guard, option.receiver))
            names.add(option.name)
        row = self.backend.methods.get(names.pop()) if len(names) == 1 else None
        if row is None or not isinstance(node.func, cst.Attribute):
            return None
        receiver = Argument(choice(receivers), node.func.value)
        full = Arguments([receiver, *arguments.positional], arguments.keywords, arguments.open)
        value = self.apply(row, node.func.attr.value, full, node, state)
        self._in_place(node.func.attr.value, value, node, state)
        return value

    def _tensor_method(self, tensor: Tensor, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        if tensor.collection and name in DICT_METHODS:
            entries = self.allocate(state, DictObject((), self.dict_entry(tensor)))
            thing = self.load(state, entries)
            assert thing is not None
            return self.container_method(entries, thing, name, arguments, node, state)
        row = self.backend.methods.get(name)
        if row is not None:
            receiver_node = node.func.value if isinstance(node.func, cst.Attribute) else None
            if node.args and node.func is not None and not isinstance(node.func, cst.Attribute):
                receiver_node = node.args[0].value
            full = Arguments(
                [Argument(tensor, receiver_node), *arguments.positional], arguments.keywords, arguments.open
            )
            value = self.apply(row, name, full, node, state)
            self._in_place(name, value, node, state)
            return value
        if name in TENSOR_NUMBER_METHODS:
            return Unknown(A_NUMBER, ("tensor", tensor.number, name))
        if tensor.domain is Domain.FLOAT or tensor.domain is Domain.INTEGER:
            return self.unknown_tensor(f"Tensor.{name}")
        return Unknown(f"Tensor.{name} has no row in the table")

    def _in_place(self, name: str, value: Value, node: cst.Call, state: State) -> None:
        """``x.relu_()`` as a statement changes the tensor that ``x`` names."""
        if not name.endswith("_") or name.endswith("__") or not isinstance(node.func, cst.Attribute):
            return
        target = node.func.value
        if isinstance(target, cst.Name) and target.value in state.names:
            state.names[target.value] = value

    def _instance_method(
        self,
        ref: Ref,
        instance: Instance,
        name: str,
        arguments: Arguments,
        node: cst.Call,
        state: State,
    ) -> Value:
        base = self.native_base(instance)
        if base in self.backend.functional_classes and (name == "forward" or name not in MODULE_ATTRIBUTES):
            return self._functional(ref, base, name, arguments, node, state)
        if name in RETURN_SELF:
            return ref
        handler: Callable[[Ref, Instance, Arguments, State], Value | None] | None = {
            "add_module": self._add_module,
            "register_module": self._add_module,
            "__setattr__": self._add_module,
            "register_buffer": self._register_tensor,
            "register_parameter": self._register_tensor,
            "append": self.append_child,
            "extend": self.extend_children,
            "insert": self.insert_child,
            "pop": self.pop_child,
            "clear": self.clear_children,
            "update": self.update_children,
        }.get(name)
        if handler is not None:
            value = handler(ref, instance, arguments, state)
            if value is not None:
                return value
        given = arguments.get(0, "name")
        if name in ("__getattr__", "__getattribute__") and isinstance(given, Const):
            return self.attribute(ref, str(given.value), state)
        hooked = self.register_hook(ref, name, arguments, state)
        if hooked is not None:
            return hooked
        if name in PARAMETER_LISTS:
            return self.parameter_list(name, state)
        if name in NAMED_LISTS:
            return self._module_list(ref, instance, name, state)
        if name in VIEWS and base in NAMED_CONTAINERS:
            return self.dict_view(instance, name, state)
        if name == "get_submodule" and arguments.positional:
            path = arguments.positional[0].value
            value = ref
            if isinstance(path, Const) and isinstance(path.value, str):
                for part in path.value.split("."):
                    value = self.attribute(value, part, state)
                return value
        if name in ("forward", "__call__") and base is not None:
            return self.native_forward(ref, base, arguments, node, state)
        return Unknown(f"method {name} of {base or 'an object of unknown class'}")

    def _functional(self, ref: Ref, base: str, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        row = self.backend.functionals.get(name)
        self._functional_use(ref, base, name, row, arguments, node, state)
        if row is None:
            functional = self.instance(state, ref)
            if name in NAMED_LISTS and functional is not None:
                return self._module_list(ref, functional, name, state)
            return Unknown(f"FloatFunctional has no method {name}")
        if self.conversion(ref) is False:
            row = replace(self.float_row(row), functionals=row.functionals)
        return self.apply(row, f"{base}.{name}", arguments, node, state, ref)

    def _functional_use(
        self,
        ref: Ref,
        base: str,
        name: str,
        row: OpSpec | None,
        arguments: Arguments,
        node: cst.Call,
        state: State,
    ) -> None:
        """Keep the fact that a method of a FloatFunctional, or the object itself, is called."""
        instance = self.instance(state, ref)
        if self.facts is None or self.muted or instance is None:
            return
        if row is None and name != "forward" and (name in FUNCTIONAL_ATTRIBUTES or name.startswith("_")):
            return
        unexpected: tuple[str, ...] = ()
        missing: tuple[str, ...] = ()
        surplus = False
        if row is not None and not arguments.open:
            surplus = len(arguments.positional) > len(row.params)
            unexpected = tuple(key for key in arguments.keywords if key not in row.params)
            bound = {*row.params[: len(arguments.positional)], *arguments.keywords, *row.optional}
            missing = tuple(parameter for parameter in row.params if parameter not in bound)
        given = (arguments.get(0, "x"), arguments.get(1, "y"))
        span = self.span(node)
        self.facts.functional_uses[(span, self.path)] = FunctionalUse(
            span,
            self.path,
            ref.oid,
            instance.cls.name,
            name,
            row is not None,
            instance.created,
            state.guard,
            unexpected,
            missing,
            surplus,
            tuple(value for value in given if value is not None),
        )

    def float_row(self, row: OpSpec) -> OpSpec:
        """What a FloatFunctional that convert does not swap calls: the plain torch function."""
        return self.backend.functions.get(row.float_function or "", row)

    def _add_module(self, ref: Ref, instance: Instance, arguments: Arguments, state: State) -> Value:
        name, module = arguments.get(0, "name"), arguments.get(1, "module")
        if isinstance(name, Const) and module is not None:
            self.assign_attribute(ref, str(name.value), module, state)
        return Const(None)

    def _register_tensor(self, ref: Ref, instance: Instance, arguments: Arguments, state: State) -> Value:
        name, tensor = arguments.get(0, "name"), arguments.get(1, "tensor")
        if isinstance(name, Const):
            value = tensor if isinstance(tensor, Tensor) or tensor == Const(None) else None
            self.set_attribute(
                ref, str(name.value), value if value is not None else self.unknown_tensor("a buffer"), state
            )
        return Const(None)

    def parameter_list(self, name: str, state: State) -> Value:
        """The parameters or buffers of a module: an unknown number of tensors."""
        tensor = self.marked_many(self.unknown_tensor("a parameter"))
        element = TupleValue((Unknown("the name of a parameter"), tensor)) if PARAMETER_LISTS[name] else tensor
        return self.allocate(state, ListObject(None, element))

    def _module_list(self, ref: Ref, instance: Instance, name: str, state: State) -> Value:
        found: list[tuple[str, Value]] = []
        if name.endswith("modules"):
            self._all_modules(ref, "", state, found, set())
        else:
            found = [(k, v) for k, v in instance.attributes.items() if self.instance(state, v) is not None]
        if self.native_base(instance) in self.backend.functional_classes:
            found.append((OBSERVER_NAME, self.allocate(state, Instance(Symbol("torch.nn.Identity"), {}))))
        if NAMED_LISTS[name]:
            return TupleValue(tuple(TupleValue((Const(key), value)) for key, value in found))
        return TupleValue(tuple(value for _, value in found))

    def _all_modules(self, ref: Ref, prefix: str, state: State, found: list[tuple[str, Value]], seen: set[int]) -> None:
        instance = self.instance(state, ref)
        if instance is None or ref.oid in seen:
            return
        seen.add(ref.oid)
        found.append((prefix, ref))
        for name, value in instance.attributes.items():
            if isinstance(value, Ref):
                self._all_modules(value, f"{prefix}.{name}" if prefix else name, state, found, seen)

    def lifecycle_call(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value | None:
        """prepare, convert and kin (see ``lifecycle``)."""
        raise NotImplementedError


def is_stub(row: OpSpec) -> bool:
    """True for the row of QuantStub."""
    return row.role is Role.QUANTIZE


__all__ = ["ClassValue", "Library"]


def _whole(value: Value) -> bool:
    return isinstance(value, Const) and isinstance(value.value, int)
