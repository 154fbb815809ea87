"""Library names as a file spells them, and the imports they need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import libcst as cst

from qlsp.diagnostics import Applicability, Fix, Message, NoFix
from qlsp.syntax.edits.statements import Statements
from qlsp.syntax.names import dotted
from qlsp.syntax.parse import Unit, walk
from qlsp.syntax.view import At, NodeKey, parsed

OLD_NAMESPACE = ("QL901",)
"""What tells of names in ``torch.quantization`` and ``torch.nn.quantized``."""


@dataclass
class Imports(Statements):
    """Spellings of qualified names; an import is added where nothing stands for one."""

    _imported: dict[tuple[str, str], str] = field(default_factory=dict)
    _old_style: bool = False

    def fix(
        self, title: Message, reason: Message, applicability: Applicability, reveals: tuple[str, ...] = ()
    ) -> Fix:
        """The fix with all edits so far; one that follows a file into the old namespace shows that once more."""
        return super().fix(title, reason, applicability, (*reveals, *(OLD_NAMESPACE if self._old_style else ())))

    def spell(self, path: str, name: str, like: str | None = None) -> str:
        """A qualified library name as a file spells it; an import is added if nothing stands for it.

        ``like`` is the spelling of a kindred name in the file, whose style a long spelling follows.
        """
        if (path, name) in self._imported:
            return self._imported[(path, name)]
        module, _, last = name.rpartition(".")
        file = self.view.file(path)
        direct, through = [], []
        for local, target in file.imports.items():
            if not self._plain_import(path, local):
                continue
            if self.view.canonical(target) == name:
                direct.append(local)
            elif self.view.canonical(target) == module:
                through.append(f"{local}.{last}")
        if direct or through:
            return min(direct or through, key=len)
        prefix = self._long_prefix(path, like, name)
        if prefix is not None:
            return prefix
        if any(last in unit.names for unit in file.syntax.units):
            raise NoFix(f"{last} means something else here")
        self._add_import(path, self._spelled_module(path, module), last)
        self._imported[(path, name)] = last
        return last

    def import_name(self, path: str, name: str) -> str:
        """A qualified name through imports of exactly its module, which are added where there are none: a name that
        its old namespace lacks."""
        module, _, last = name.rpartition(".")
        for target, spelling in ((name, "{}"), (module, f"{{}}.{last}")):
            local = self.imported_as(path, target)
            if local is not None:
                return spelling.format(local)
        if (path, name) not in self._imported:
            if any(last in unit.names for unit in self.view.file(path).syntax.units):
                raise NoFix(f"{last} means something else here")
            self._add_import(path, module, last)
            self._imported[(path, name)] = last
        return last

    def imported_as(self, path: str, target: str) -> str | None:
        """The name under which a file imports a module or a name at its top level, None if it does not."""
        imports = self.view.file(path).imports.items()
        return next((name for name, each in imports if each == target and self._plain_import(path, name)), None)

    def names_in(self, path: str, wanted: Iterable[str]) -> list[str]:
        """Those of these names that a file reads and that nothing in it binds."""
        file = self.view.file(path)
        bound = {name for unit in file.syntax.units for name in unit.names} | set(file.imports)
        trees = [tree for unit in file.syntax.all_units.values() if (tree := parsed(unit)) is not None]
        nodes = [node for tree in trees for node in walk(tree)]
        labels = {id(label) for node in nodes for label in _labels(node)}
        read = {node.value for node in nodes if isinstance(node, cst.Name) and id(node) not in labels}
        return sorted((set(wanted) & read) - bound)

    def lines(self, key: NodeKey, statements: Sequence[str]) -> str:
        """Statements, one a line, as they can stand in the place of a statement that is alone on its lines."""
        statement = self.view.statement(self.view.at(key))
        source = self._source(statement.unit.path, statement.span.segment)
        start = max(source.rfind(each, 0, statement.span.start) for each in "\r\n") + 1
        indent = source[start : statement.span.start]
        return f"{self._newline(statement)}{indent}".join(statements)

    def _plain_import(self, path: str, local: str) -> bool:
        """True if a name is bound by imports at the top level only, whatever branch runs."""
        units = [unit for unit in self.view.file(path).syntax.units if local in unit.names]
        return bool(units) and all(_is_import(unit) for unit in units)

    def _long_prefix(self, path: str, like: str | None, name: str) -> str | None:
        """``torch.ao.nn.quantized.X`` where the file says ``torch.ao.quantization.QuantStub``."""
        if like is None or like.count(".") < 2:
            return None
        first = like.partition(".")[0]
        target = self.view.file(path).imports.get(first)
        if target != "torch" or not self._plain_import(path, first):
            return None
        for spelled in (name, name.replace("torch.ao.", "torch.", 1)):
            if like.split(".")[1] == spelled.split(".")[1] and self.view.canonical(spelled) == name:
                self._old_style = self._old_style or spelled != name
                return f"{first}.{spelled.partition('.')[2]}"
        return None

    def _spelled_module(self, path: str, module: str) -> str:
        """The old namespace where the file imports from no other."""
        targets = [t for t in self.view.file(path).imports.values() if t.startswith("torch.")]
        old = [t for t in targets if t.startswith(("torch.quantization", "torch.nn.quantized"))]
        shorter = module.replace("torch.ao.", "torch.", 1)
        if old and not any(t.startswith("torch.ao.") for t in targets) and self.view.canonical(shorter) == module:
            self._old_style = True
            return shorter
        return module

    def _add_import(self, path: str, module: str, name: str) -> None:
        """``from module import name``, where isort would put it."""
        imports = [unit for unit in self.view.file(path).syntax.units if _is_import(unit)]
        for unit in imports:
            found = _import_from(unit)
            if found is not None and dotted(found.module) == module if found and found.module else False:
                assert found is not None
                if isinstance(found.names, cst.ImportStar):
                    continue
                behind = _name_behind(found.names, name)
                if behind is not None:
                    place = At(unit, behind).place
                    self.insert(path, place.span.start, f"{name}, ", place.span.segment)
                    return
                place = At(unit, found.names[-1]).place
                last = found.names[-1]
                end = place.span.end
                if last.comma is not cst.MaybeSentinel.DEFAULT:
                    inner = last.asname.name if last.asname is not None else last.name
                    end = At(unit, inner).span.end
                self.insert(path, end, f", {name}", place.span.segment)
                return
        line = f"from {module} import {name}"
        torch = [unit for unit in imports if _top_package(unit) == "torch"]
        later = [unit for unit in torch if (key := _from_module(unit)) is not None and key > module]
        if later:
            self._line_before(later[0], line)
        elif torch or imports:
            self._insert_after(_unit_statement((torch or imports)[-1]), line)
        else:
            self._first_line(path, line)

    def _line_before(self, unit: Unit, line: str) -> None:
        statement = _unit_statement(unit)
        start, _ = self._lines(statement)
        self.insert(unit.path, start, f"{line}{self._newline(statement)}", unit.segment)

    def _first_line(self, path: str, line: str) -> None:
        units = self.view.file(path).syntax.units
        if not units:
            raise NoFix("an empty file")
        first = units[0]
        node = parsed(first)
        small = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
        docstring = isinstance(small, cst.Expr) and isinstance(small.value, (cst.SimpleString, cst.ConcatenatedString))
        if docstring:
            self._insert_after(_unit_statement(first), line)
        else:
            self._line_before(first, line)


def _labels(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Names in a node that are read from no scope: an attribute, a keyword of a call."""
    if isinstance(node, cst.Attribute):
        return (node.attr,)
    return (node.keyword,) if isinstance(node, cst.Arg) and node.keyword is not None else ()


def _is_import(unit: Unit) -> bool:
    node = parsed(unit) if unit.kind == "statement" and "import" in unit.text else None
    return isinstance(node, cst.SimpleStatementLine) and all(
        isinstance(small, (cst.Import, cst.ImportFrom)) for small in node.body
    )


def _name_behind(names: Sequence[cst.ImportAlias], name: str) -> cst.ImportAlias | None:
    """The imported name in front of which isort would put another; None for the end, and where they are not sorted."""
    keys = [_import_order(dotted(each.name) or "") for each in names]
    if keys != sorted(keys):
        return None
    return next((each for each, key in zip(names, keys, strict=True) if key > _import_order(name)), None)


def _import_order(name: str) -> tuple[int, str]:
    """Constants, classes and all else, as isort sorts the names of one import."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name.lower()


def _import_from(unit: Unit) -> cst.ImportFrom | None:
    node = parsed(unit)
    assert isinstance(node, cst.SimpleStatementLine)
    small = node.body[0]
    plain = isinstance(small, cst.ImportFrom) and len(node.body) == 1 and not small.relative
    return small if plain and isinstance(small, cst.ImportFrom) else None


def _from_module(unit: Unit) -> str | None:
    found = _import_from(unit)
    return dotted(found.module) if found is not None and found.module is not None else None


def _top_package(unit: Unit) -> str | None:
    module = _from_module(unit)
    if module is None:
        node = parsed(unit)
        assert isinstance(node, cst.SimpleStatementLine)
        small = node.body[0]
        if isinstance(small, cst.Import):
            module = dotted(small.names[0].name)
    return module.partition(".")[0] if module is not None else None


def _unit_statement(unit: Unit) -> At:
    node = parsed(unit)
    assert node is not None
    return At(unit, node)
