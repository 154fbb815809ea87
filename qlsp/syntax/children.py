"""Code that lists the children of models: may it meet a new submodule of a class, and would it do anything with it?

A listing is an attribute ``children``, ``named_children`` or ``_modules``, or one of those in a string that ``getattr``
and kin get; so are ``modules`` and ``named_modules`` where the modules are counted or told by their place. It is of no
matter for a class

- in a file that no import connects with that of the class;
- whose receiver cannot be an object of the class: ``self`` of another class, what a library class or another class in
  view makes;
- that loops over the children and does nothing with a stub or a FloatFunctional: what it does stands behind
  ``isinstance``, ``type`` or ``hasattr``, or goes on to the children of the child: an Identity in a FloatFunctional.

What cannot be told counts as a listing that matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import libcst as cst

from qlsp.syntax.leaves import RECOGNIZED, Effect, Judge, Outcome, compares_with_none
from qlsp.syntax.names import dotted
from qlsp.syntax.parse import Unit, walk
from qlsp.syntax.view import At, ClassAt, CodeView, Family, parsed

_LISTS = re.compile(r"\b(?:children|named_children|_modules|(?:named_)?modules)\b")
_NAMES = ("children", "named_children", "_modules")
_WHOLE = ("modules", "named_modules")
_FETCHES = ("getattr", "attrgetter", "methodcaller")
_LIBRARY = re.compile(r"torch\.nn\.(?:[a-z]\w*\.)*[A-Z]\w*|torchvision\.models\.(?!feature_extraction|get_model)[\w.]+")
"""Library names whose results are objects of a library class."""


def listed(view: CodeView, cls: ClassAt) -> bool:
    """True if code in view may do something with one more child of a class because it lists children."""
    kin = _kin(view, cls)
    return any(
        _matters(view, listing, cls, kin)
        for path in view.connected(cls.unit.path)
        for listing in _open_listings(view, path)
    )


def _kin(view: CodeView, cls: ClassAt) -> list[ClassAt]:
    """Every class in view that an object of a class or of one of its subclasses may be an object of."""
    family = view.family(cls)
    found = list(family.everyone)
    for other in family.descendants:
        found.extend(view.family(other).ancestors)
    return found


def _open_listings(view: CodeView, path: str) -> tuple[At | None, ...]:
    """The listings of a file that matter to every class that may be meant."""
    if path not in view.listings:
        view.listings[path] = tuple(
            at
            for at in _listings(view, path)
            if at is None
            or not isinstance(at.node, cst.Attribute)
            or at.node.attr.value in _WHOLE
            or not (_by_name(view, at) or _does_nothing(view, at))
        )
    return view.listings[path]


def _listings(view: CodeView, path: str) -> Iterator[At | None]:
    """The places of a file that list children; None for a chunk with such a word that does not parse."""
    for unit in view.file(path).syntax.all_units.values():
        if unit.members or not _LISTS.search(unit.text):
            continue
        tree = parsed(unit)
        if tree is None:
            yield None
            continue
        for node in walk(tree):
            if _lists(view, At(unit, node)):
                yield At(unit, node)


def _lists(view: CodeView, at: At) -> bool:
    node = at.node
    if isinstance(node, cst.SimpleString):
        called = view.parent(At(at.unit, parent)) if isinstance(parent := view.parent(at), cst.Arg) else None
        fetched = isinstance(called, cst.Call) and (dotted(called.func) or "").rpartition(".")[2] in _FETCHES
        return node.value[1:-1] == "_modules" or fetched and node.value[1:-1] in _NAMES
    return isinstance(node, cst.Attribute) and (node.attr.value in _NAMES or _places(view, at))


def _places(view: CodeView, at: At) -> bool:
    """``list(model.modules())``, ``enumerate(model.modules())``: modules that are counted or told by their place, or
    a loop over them that looks for an Identity or refuses what it does not know."""
    if not isinstance(at.node, cst.Attribute) or at.node.attr.value not in _WHOLE:
        return False
    whole = _whole(view, at)
    holder = view.parent(whole)
    if isinstance(holder, (cst.For, cst.CompFor)):
        identity = any(isinstance(each, cst.Name) and each.value == "Identity" for each in walk(holder))
        return identity or isinstance(holder, cst.For) and _refuses(view, at, holder)
    call = view.parent(At(at.unit, holder)) if isinstance(holder, cst.Arg) else None
    if isinstance(call, cst.Call) and dotted(call.func) in ("enumerate", "len"):
        return True
    listed = isinstance(whole.node, cst.Call) and dotted(whole.node.func) in ("list", "tuple")
    return listed or isinstance(holder, cst.StarredElement)


def _refuses(view: CodeView, listing: At, loop: cst.For) -> bool:
    """A loop over modules that may raise for one that fixes add."""
    if not any(isinstance(each, (cst.Raise, cst.Assert)) for each in walk(loop.body)):
        return False
    child = _child(listing, loop.target)
    return child is None or Judge(view, listing.unit.path).block(loop.body, child, returns=False) is Effect.SOME


def _matters(view: CodeView, listing: At | None, cls: ClassAt, kin: Sequence[ClassAt]) -> bool:
    if listing is None or not isinstance(listing.node, cst.Attribute):
        return True
    if listing.node.attr.value in _WHOLE:
        return True
    others = _of_others(view, At(listing.unit, listing.node.value), kin)
    return not (others or _asks_whether_any(view, listing, cls))


def _by_name(view: CodeView, listing: At) -> bool:
    """``_modules["name"]``, ``_modules.get("name")``: one child that was there before."""
    parent = view.parent(listing)
    assert isinstance(listing.node, cst.Attribute)
    if listing.node.attr.value != "_modules":
        return False
    if isinstance(parent, cst.Subscript):
        index = parent.slice[0].slice if len(parent.slice) == 1 else None
        return isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)
    call = view.parent(At(listing.unit, parent)) if isinstance(parent, cst.Attribute) else None
    if not isinstance(call, cst.Call) or parent is not call.func or not call.args:
        return False
    return isinstance(call.args[0].value, cst.SimpleString)


# --- whose children -----------------------------------------------------------------------------------------------


def _of_others(view: CodeView, receiver: At, kin: Sequence[ClassAt]) -> bool:
    """True if an expression is certainly no object of these classes."""
    node = receiver.node
    if isinstance(node, cst.Call):
        return _makes_others(view, receiver, kin)
    if isinstance(node, cst.Name):
        owner = _receiver_class(view, receiver, node.value)
        if owner is not None:
            return not _among(owner, kin)
        values = _values_of_name(view, receiver, node.value)
    elif isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
        owner = _receiver_class(view, receiver, node.value.value)
        values = _values_of_attribute(view, owner, node.attr.value) if owner is not None else []
    else:
        return False
    return bool(values) and all(_makes_others(view, value, kin) for value in values)


def _makes_others(view: CodeView, value: At, kin: Sequence[ClassAt]) -> bool:
    """True for the call of a class that is none of these, and of no other one's."""
    node = value.node
    if not isinstance(node, cst.Call):
        return False
    name = dotted(node.func)
    path = value.unit.path
    if name == "super" and not node.args:
        owner = view.enclosing_class(value)
        return owner is not None and not _among(owner, kin)
    qualified = view.qualified(path, name)
    if name is None or qualified is not None and _LIBRARY.fullmatch(qualified):
        return name is not None
    meant = view.meant(path, name)
    return bool(meant) and not any(_among(each, kin) for each in meant)


def _receiver_class(view: CodeView, at: At, name: str) -> ClassAt | None:
    """The class whose method has this name as its receiver, where it stands for that."""
    function = view.function(at)
    while function is not None:
        if not isinstance(function.node, cst.FunctionDef):
            return None
        parameters = [*function.node.params.posonly_params, *function.node.params.params]
        outer = view.function(function)
        cls = view.enclosing_class(function)
        if parameters and parameters[0].name.value == name:
            direct = outer is None and cls is not None and not function.node.decorators
            return cls if direct and not _stored(function.node, name) else None
        if _binds(function.node, name):
            return None
        function = outer
    return None


def _values_of_name(view: CodeView, at: At, name: str) -> list[At]:
    """What the function around a node, or its file, sets a name to; nothing where that is not all."""
    function = view.function(at)
    while function is not None:
        if _binds(function.node, name):
            return _assigned_values(function.unit, function.node, name)
        function = view.function(function)
    found: list[At] = []
    for unit in view.file(at.unit.path).syntax.units:
        if name in unit.names:
            tree = parsed(unit)
            values = _assigned_values(unit, tree, name) if tree is not None and unit.kind == "statement" else []
            if not values:
                return []
            found.extend(values)
    return found


def _assigned_values(unit: Unit, scope: cst.CSTNode, name: str) -> list[At]:
    """The values of plain assignments to a name; nothing if it is bound in another way too."""
    values = [
        At(unit, node.value)
        for node in walk(scope)
        if isinstance(node, (cst.Assign, cst.AnnAssign)) and node.value is not None
        for target in _targets(node)
        if isinstance(target, cst.Name) and target.value == name
    ]
    return values if len(values) == _stored(scope, name) else []


def _targets(node: cst.Assign | cst.AnnAssign) -> list[cst.BaseExpression]:
    return [each.target for each in node.targets] if isinstance(node, cst.Assign) else [node.target]


def _binds(scope: cst.CSTNode, name: str) -> bool:
    parameters = (node.name.value == name for node in walk(scope) if isinstance(node, cst.Param))
    return any(parameters) or bool(_stored(scope, name))


def _stored(scope: cst.CSTNode, name: str) -> int:
    """How often a scope binds a name by other than a parameter."""
    count = 0
    for node in walk(scope):
        targets: list[cst.CSTNode] = []
        if isinstance(node, (cst.Assign, cst.AnnAssign)):
            targets = list(_targets(node))
        elif isinstance(node, (cst.For, cst.CompFor, cst.NamedExpr, cst.AugAssign)):
            targets = [node.target]
        elif isinstance(node, cst.AsName) or isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node is not scope:
            targets = [node.name]
        elif isinstance(node, (cst.Del, cst.Global, cst.Nonlocal, cst.Import, cst.ImportFrom, cst.MatchAs)):
            count += any(isinstance(each, cst.Name) and each.value == name for each in walk(node))
        for target in targets:
            count += sum(isinstance(each, cst.Name) and each.value == name for each in _bound(target))
    return count


def _bound(target: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The names that a target binds: not those of ``a.b`` and ``a[b]``."""
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _bound(element.value)
    else:
        yield target


def _values_of_attribute(view: CodeView, cls: ClassAt, name: str) -> list[At]:
    """What the methods of a class set an attribute to; nothing where other code may set it too."""
    found = [
        At(method.unit, node.value)
        for method in cls.methods.values()
        for node in walk(method.node)
        if isinstance(node, (cst.Assign, cst.AnnAssign)) and node.value is not None
        for target in _targets(node)
        if isinstance(target, cst.Attribute) and target.attr.value == name and dotted(target.value) == "self"
    ]
    pattern = re.compile(rf"\.\s*{name}\b(?=\s*(?::[^=\n]*)?=(?!=)|\s*,[^=\n]*=(?!=))|[\"']{name}[\"']")
    paths = view.connected(cls.unit.path)
    sets = sum(len(pattern.findall(unit.text)) for path in paths for unit in view.file(path).syntax.units)
    return found if sets == len(found) else []


def _among(cls: ClassAt, others: Sequence[ClassAt]) -> bool:
    return any(cls.unit is other.unit and cls.node is other.node for other in others)


# --- what is done with them ---------------------------------------------------------------------------------------


def _whole(view: CodeView, at: At) -> At:
    """A listing with its call and a ``list`` around it: what is looped over."""
    node = at.node
    assert isinstance(node, cst.Attribute)
    if node.attr.value == "_modules":
        parent = view.parent(at)
        if not isinstance(parent, cst.Attribute) or parent.attr.value not in ("items", "values"):
            return at
        at = At(at.unit, parent)
    while True:
        parent = view.parent(at)
        if isinstance(parent, cst.Call) and parent.func is at.node and not parent.args:
            at = At(at.unit, parent)
            continue
        call = view.parent(At(at.unit, parent)) if isinstance(parent, cst.Arg) and not parent.star else None
        if isinstance(call, cst.Call) and dotted(call.func) in ("list", "tuple", "sorted") and len(call.args) == 1:
            at = At(at.unit, call)
            continue
        return at


def _child(listing: At, target: cst.BaseExpression) -> str | None:
    """The name of the child in the head of a loop over a listing."""
    assert isinstance(listing.node, cst.Attribute)
    named = listing.node.attr.value not in ("children", "modules")
    if named and isinstance(target, cst.Tuple) and len(target.elements) == 2:
        target = target.elements[1].value
    elif named:
        return None
    return target.value if isinstance(target, cst.Name) else None


def _does_nothing(view: CodeView, listing: At) -> bool:
    """A loop that passes over a child which is a stub, a FloatFunctional or another leaf that fixes add."""
    whole = _whole(view, listing)
    loop = view.parent(whole)
    if not isinstance(loop, (cst.For, cst.CompFor)) or loop.iter is not whole.node:
        return False
    child = _child(listing, loop.target)
    if child is None:
        return False
    judge = Judge(view, listing.unit.path)
    if isinstance(loop, cst.CompFor):
        return any(judge.test(each.test, child) is Outcome.FALSE for each in loop.ifs)
    return loop.orelse is None and judge.block(loop.body, child, returns=False) is not Effect.SOME


def _asks_whether_any(view: CodeView, listing: At, cls: ClassAt) -> bool:
    """``len(list(child.children())) > 0`` of a child in a loop over children: a class with modules stays one."""
    assert isinstance(listing.node, cst.Attribute)
    whole = _whole(view, listing)
    if not isinstance(whole.node, cst.Call) or dotted(whole.node.func) not in ("list", "tuple"):
        return False
    test = view.parent(whole)
    if isinstance(test, cst.Arg):
        call = view.parent(At(listing.unit, test))
        if not isinstance(call, cst.Call) or dotted(call.func) != "len":
            return False
        test = view.parent(At(listing.unit, call))
        if not isinstance(test, cst.Comparison) or compares_with_none(test) is None:
            return False
    elif not isinstance(test, (cst.If, cst.UnaryOperation, cst.BooleanOperation)):
        return False
    return _in_loop_over_children(view, listing) and _has_modules(view, cls)


def _in_loop_over_children(view: CodeView, listing: At) -> bool:
    assert isinstance(listing.node, cst.Attribute)
    name = dotted(listing.node.value)
    for node in view.ancestors(listing):
        if isinstance(node, cst.For):
            names = {each.value for each in walk(node.target) if isinstance(each, cst.Name)}
            if name in names:
                return any(isinstance(each, cst.Attribute) and each.attr.value in _NAMES for each in walk(node.iter))
    return False


def _has_modules(view: CodeView, cls: ClassAt) -> bool:
    """Does ``__init__`` make a submodule of the library as it is?"""
    init = cls.methods.get("__init__")
    values = (node.value for node in walk(init.node) if isinstance(node, cst.Assign)) if init is not None else ()
    names = (view.qualified(cls.unit.path, dotted(value.func)) for value in values if isinstance(value, cst.Call))
    return any(name is not None and RECOGNIZED.fullmatch(name) for name in names)


# --- children that are run ----------------------------------------------------------------------------------------


def runs_children(family: Family) -> bool:
    """Does a method of a class and its kin list the object's own children to run them? One more would run too."""
    return any(_runs_children(m.unit, m.node) for cls in family.everyone for m in cls.methods.values())


@lru_cache(maxsize=256)
def _runs_children(unit: Unit, function: cst.CSTNode) -> bool:
    """A loop over the receiver's children that stands in ``forward`` or calls them, or a list of them."""
    assert isinstance(function, cst.FunctionDef)
    parameters = [*function.params.posonly_params, *function.params.params]
    if not parameters or not _LOOPS.search(unit.text):
        return False
    receiver = re.escape(parameters[0].name.value)
    children = re.compile(_CHILDREN.format(receiver=receiver))
    modules = re.compile(rf"\b{receiver}\s*\.\s*(?:named_)?modules\s*\(")
    loops = 0
    for node in walk(function):
        if isinstance(node, cst.For) and children.search(header := _loop_header(unit, node)):
            loops += len(children.findall(header))
            if function.name.value == "forward" or _calls_target(node):
                return True
        elif isinstance(node, cst.For) and modules.search(_loop_header(unit, node)) and _calls_target(node):
            return True
    return len(children.findall(_source(unit, function))) > loops


def _calls_target(loop: cst.For) -> bool:
    targets = {name.value for name in walk(loop.target) if isinstance(name, cst.Name)}
    called = (node.func for node in walk(loop.body) if isinstance(node, cst.Call))
    return any(isinstance(function, cst.Name) and function.value in targets for function in called)


def _loop_header(unit: Unit, loop: cst.For) -> str:
    return f"in {_source(unit, loop.iter)}:"


def _source(unit: Unit, node: cst.CSTNode) -> str:
    return unit.source(unit.span(unit.ordinal(node)))


_LOOPS = re.compile(r"\b(?:(?:named_)?(?:children|modules)|_modules|items|values)\b|\bin\s+\w+\s*:|\(\s*\*?\w+\s*[,)]")
_CHILDREN = (
    r"\b{receiver}\s*\.\s*(?:(?:named_)?children\s*\(|(?:items|values)\s*\(|_modules\b(?!\s*\[|\s*\.\s*get\b))"
    r"|\bin\s+{receiver}\s*:|\b(?:enumerate|list|tuple|zip|reversed|iter)\s*\(\s*{receiver}\s*[,)]"
    r"|[(,]\s*\*\s*{receiver}\s*[,)]"
)
"""Text that lists the children of a receiver."""
