"""Rewrites that must not change a verdict.

A rewrite takes the text of one file and returns the lines of one or more files, each with the row it came
from, or None where it does not apply. The analyzer must then report the same rules on the same rows.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import io
import keyword
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

MAIN = "model.py"
BLOCKS = "blocks.py"


@dataclass(frozen=True)
class Line:
    """A line without its end, and the row of the original it came from; None for a new line."""

    text: str
    origin: int | None = None


@dataclass(frozen=True)
class Rewrite:
    """The files that a rewrite made."""

    files: dict[str, tuple[Line, ...]]
    end: str = "\n"

    def texts(self) -> dict[str, str]:
        """File names to contents."""
        return {name: self.end.join(line.text for line in lines) + self.end for name, lines in self.files.items()}

    def origin(self, name: str, row: int) -> int | None:
        """The row of the original that a row came from."""
        lines = self.files[name]
        return lines[row - 1].origin if row <= len(lines) else None


class Original:
    """A file to rewrite: its lines and its syntax tree."""

    def __init__(self, text: str) -> None:
        self.rows = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")
        self.text = "\n".join(self.rows) + "\n"
        self.tree = ast.parse(self.text)

    def lines(self) -> list[Line]:
        """Every line, unchanged."""
        return [Line(text, row) for row, text in enumerate(self.rows, 1)]

    def extent(self, node: ast.stmt) -> tuple[int, int]:
        """First and last row of a statement, with its decorators and the comments right above it."""
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        while first > 1 and self.rows[first - 2].lstrip().startswith("#") and first - 2 >= self._header():
            first -= 1
        assert node.end_lineno is not None
        return first, node.end_lineno

    def block(self, node: ast.stmt) -> list[Line]:
        """The lines of a statement."""
        first, last = self.extent(node)
        return self.lines()[first - 1 : last]

    def indent(self, node: ast.stmt) -> str:
        """The white space in front of a statement."""
        row = self.rows[node.lineno - 1]
        return row[: len(row) - len(row.lstrip())]

    def classes(self) -> list[ast.ClassDef]:
        """The classes at the top level."""
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef)]

    def _header(self) -> int:
        """Number of comment lines at the top; they stay where they are."""
        count = 0
        while count < len(self.rows) and self.rows[count].startswith("#"):
            count += 1
        return count


Rewriter = Callable[[Original], Rewrite | None]


def one_file(lines: Iterable[Line], end: str = "\n") -> Rewrite:
    """A rewrite that leaves one file."""
    return Rewrite({MAIN: tuple(lines)}, end)


# text


def crlf(original: Original) -> Rewrite | None:
    """Other line ends."""
    return one_file(original.lines(), "\r\n")


def tabs(original: Original) -> Rewrite | None:
    """Tabs instead of spaces in front of code that starts a line."""
    inside = _rows_inside_tokens(original.text)
    if any(row.startswith("\t") for row in original.rows):
        return None

    def indented(line: Line) -> Line:
        width = len(line.text) - len(line.text.lstrip(" "))
        if line.origin in inside or width % 4:
            return line
        return Line("\t" * (width // 4) + line.text[width:], line.origin)

    result = one_file(map(indented, original.lines()))
    return result if _parses(result) else None


def spread(original: Original) -> Rewrite | None:
    """Blank lines and comments between statements."""
    starts = {node.lineno for node in ast.walk(original.tree) if isinstance(node, ast.stmt)}
    starts -= {d.lineno for d in _decorated(original.tree)} | {d.end_lineno for d in _decorated(original.tree)}
    lines: list[Line] = []
    for line in original.lines():
        if line.origin in starts and not _is_else(original, line.origin):
            lines += [Line(""), Line("# a comment of its own"), Line(line.text, line.origin)]
        else:
            lines.append(line)
    result = one_file(lines)
    return result if _parses(result) else None


def _is_else(original: Original, row: int | None) -> bool:
    assert row is not None
    return original.rows[row - 1].lstrip().startswith(("elif", "else", "except", "finally"))


def _decorated(tree: ast.AST) -> list[ast.stmt]:
    kinds = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
    return [node for node in ast.walk(tree) if isinstance(node, kinds) and node.decorator_list]


def _rows_inside_tokens(text: str) -> set[int]:
    """Rows that continue a string or a bracket."""
    inside: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING:
            inside |= set(range(token.start[0] + 1, token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.expr) and node.end_lineno is not None:
            inside |= set(range(node.lineno + 1, node.end_lineno + 1))
    return inside


def _parses(rewrite: Rewrite) -> bool:
    try:
        for text in rewrite.texts().values():
            ast.parse(text)
    except SyntaxError:
        return False
    return True


# dead code

HELPER = ["", "", "def never_called(value):", "    return [value for _ in range(3)]", "", ""]


def dead_code(original: Original) -> Rewrite | None:
    """Docstrings, comments, statements without effect, an unused function, and code behind a return."""
    before: dict[int, list[Line]] = {}
    after: dict[int, list[Line]] = {}
    for node in ast.walk(original.tree):
        if not isinstance(node, ast.FunctionDef) or node.body[0].lineno == node.lineno:
            continue
        first, last = node.body[0], node.body[-1]
        indent = original.indent(first)
        documented = ast.get_docstring(node) is not None
        new = [] if documented else [Line(f'{indent}"""Says what it does."""')]
        new += [Line(f"{indent}# and why"), Line(f"{indent}nothing_at_all = 0")]
        target = (
            after.setdefault(first.end_lineno or 0, [])
            if documented
            else before.setdefault(original.extent(first)[0], [])
        )
        target.extend(new)
        if isinstance(last, ast.Return):
            after.setdefault(last.end_lineno or 0, []).append(Line(f"{indent}nothing_at_all = 1"))
    lines: list[Line] = []
    for line in original.lines():
        assert line.origin is not None
        lines += [*before.get(line.origin, []), line, *after.get(line.origin, [])]
    return one_file([*lines, *map(Line, HELPER)])


# order and inheritance


def reorder_methods(original: Original) -> Rewrite | None:
    """Each class's methods, last first."""
    lines = original.lines()
    changed = False
    for node in original.classes():
        methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        names = [each.name for each in methods]
        uses_accessors = any(isinstance(d, ast.Attribute) for each in methods for d in each.decorator_list)
        if len(methods) < 2 or len(set(names)) < len(names) or uses_accessors:
            continue
        if methods != node.body[-len(methods) :]:
            continue
        first, last = original.extent(methods[0])[0], original.extent(methods[-1])[1]
        blocks = [original.block(each) for each in reversed(methods)]
        new: list[Line] = []
        for block in blocks:
            new += [*block, Line("")]
        length = last - first + 1
        new = new[:-1]
        new += [Line("") for _ in range(length - len(new))]
        lines[first - 1 : last] = new[:length] if len(new) <= length else new
        if len(new) > length:
            return None
        changed = True
    return one_file(lines) if changed else None


def forward_in_base(original: Original) -> Rewrite | None:
    """Move every ``forward`` into a base class of its own."""
    return _method_in_base(original, "forward")


def init_in_base(original: Original) -> Rewrite | None:
    """Move every ``__init__`` into a base class of its own."""
    return _method_in_base(original, "__init__")


def _method_in_base(original: Original, name: str) -> Rewrite | None:
    replaced: dict[int, list[Line]] = {}
    dropped: set[int] = set()
    for node in original.classes():
        method = next((m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == name), None)
        if method is None or len(node.bases) != 1 or node.keywords or node.decorator_list:
            continue
        header = original.rows[node.lineno - 1]
        if _mentions_super(method, name) or not header.rstrip().endswith(":"):
            continue
        if any(_calls_super(each, name) for each in node.body if each is not method):
            continue
        base = ast.get_source_segment(original.text, node.bases[0])
        if base is None or "\n" in base or f"({base})" not in header:
            continue
        first, last = original.extent(method)
        base_name = f"{node.name}Base"
        moved = [Line(header.replace(f"class {node.name}", f"class {base_name}"))]
        moved += [*original.block(method), Line(""), Line("")]
        start = original.extent(node)[0]
        replaced[start] = moved
        new_header = Line(header.replace(f"({base})", f"({base_name})"), node.lineno)
        replaced[-node.lineno] = [new_header]
        if len(node.body) == 1:
            replaced[-node.lineno].append(Line(f"{original.indent(method)}pass"))
        dropped |= set(range(first, last + 1))
    if not replaced:
        return None
    lines: list[Line] = []
    for line in original.lines():
        assert line.origin is not None
        lines += replaced.get(line.origin, [])
        if -line.origin in replaced:
            lines += replaced[-line.origin]
        elif line.origin not in dropped:
            lines.append(line)
    return one_file(lines)


def _mentions_super(method: ast.FunctionDef, name: str) -> bool:
    """Does the method need its own place in the hierarchy? ``super().__init__()`` alone does not."""
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
            if node.args or name != "__init__":
                return True
        elif isinstance(node, ast.Attribute) and node.attr == "__class__":
            return True
    return False


def _calls_super(node: ast.AST, name: str) -> bool:
    """Is ``super().<name>`` in it? It would be another method with the base class in between."""
    return any(
        isinstance(each, ast.Attribute)
        and each.attr == name
        and isinstance(each.value, ast.Call)
        and isinstance(each.value.func, ast.Name)
        and each.value.func.id == "super"
        for each in ast.walk(node)
    )


# two files


def split_classes(original: Original) -> Rewrite | None:
    """All classes into another file."""
    return _split(original, original.classes())


def split_inner_classes(original: Original) -> Rewrite | None:
    """The classes that other classes use into another file."""
    classes = original.classes()
    used = {name for node in classes for name in _names(node) if name != node.name}
    inner = [node for node in classes if node.name in used]
    return _split(original, inner) if len(inner) < len(classes) else None


def _split(original: Original, classes: Sequence[ast.ClassDef]) -> Rewrite | None:
    """Classes and what they need into another file; not where the code that stays behind names none of them.

    A prepare call on a model that is passed in is taken as one on the classes of its own file: apart, nothing says
    that they belong together.
    """
    body = original.tree.body
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    if not classes or any(isinstance(n, ast.ImportFrom) and n.names[0].name == "*" for n in imports):
        return None
    moved: list[ast.stmt] = list(classes)
    while True:
        needed = {name for node in moved for name in _names(node)}
        more = [n for n in body if n not in moved and n not in imports and _defines(n) & needed]
        if not more:
            break
        moved += more
    if any(not isinstance(n, ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign) for n in moved):
        return None
    rest = [node for node in body if node not in moved and node not in imports]
    if any(_defines(node) & {n for m in moved for n in _defines(m)} for node in rest):
        return None
    exported = sorted({name for node in moved for name in _defines(node)})
    if any(name.startswith("__") for name in exported):
        return None
    if rest and not any(_names(node) & set(exported) for node in rest):
        return None
    header = [line for line in original.lines()[: original._header()]]
    import_lines = [line for node in imports for line in original.block(node)]
    unnumbered = [Line(line.text) for line in import_lines]
    blocks = [*unnumbered, Line("")]
    for node in sorted(moved, key=lambda node: node.lineno):
        blocks += [*original.block(node), Line(""), Line("")]
    main = [*header, *import_lines, Line(f"from blocks import {', '.join(exported)}"), Line("")]
    for node in rest:
        main += [*original.block(node), Line(""), Line("")]
    return Rewrite({BLOCKS: tuple(blocks), MAIN: tuple(main)})


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _defines(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return {node.name}
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For | ast.With | ast.If | ast.Try):
        return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return set()


# other names

FIXED_NAMES = frozenset({"self", "cls", "super", "forward", "qconfig", "training", "weight", "bias", "module"})


def rename(original: Original) -> Rewrite | None:
    """Every class, function, attribute and local name gets another name."""
    chosen = _Names(original.tree)
    names = {name: f"{'_' if name.startswith('_') else ''}name{i}_" for i, name in enumerate(chosen.all())}
    if not names:
        return None
    edits: dict[int, list[tuple[int, int, str]]] = {}
    tokens = list(tokenize.generate_tokens(io.StringIO(original.text).readline))
    code = [t for t in tokens if t.type not in (tokenize.NL, tokenize.COMMENT)]
    for index, token in enumerate(code):
        new = None
        if token.type == tokenize.NAME and token.string in names:
            dotted = index > 0 and code[index - 1].string == "."
            receiver = code[index - 2].string if dotted and index > 1 else ""
            root = _root(code, index) if dotted else ""
            if not dotted or chosen.attribute_token(token.string, receiver, root):
                new = names[token.string]
        elif token.type == tokenize.STRING and token.start[0] == token.end[0]:
            new = _renamed_string(token.string, chosen.attributes, names)
        if new is not None:
            edits.setdefault(token.start[0], []).append((token.start[1], token.end[1], new))
    lines = []
    for line in original.lines():
        text = line.text
        for start, end, new in sorted(edits.get(line.origin or 0, []), reverse=True):
            text = text[:start] + new + text[end:]
        lines.append(Line(text, line.origin))
    return one_file(lines)


def _root(code: Sequence[tokenize.TokenInfo], index: int) -> str:
    """The first name of a dotted chain, or an empty text where the chain starts at a call or an index."""
    while index > 1 and code[index - 1].string == ".":
        if code[index - 2].type != tokenize.NAME:
            return ""
        index -= 2
    return code[index].string


def _renamed_string(string: str, attributes: set[str], names: dict[str, str]) -> str | None:
    quote = string[-1]
    if string[0] != quote or string.startswith(quote * 3):
        return None
    parts = string[1:-1].split(".")
    if not any(part in attributes and part in names for part in parts):
        return None
    new = ".".join(names[part] if part in attributes and part in names else part for part in parts)
    return f"{quote}{new}{quote}"


class _Names:
    """Which names of a file are its own, and may be called otherwise."""

    def __init__(self, tree: ast.Module) -> None:
        self.imported = set(bindings(tree))
        self.attributes: set[str] = set()
        self.plain: set[str] = set()
        kept = set(FIXED_NAMES) | self.imported | set(dir(builtins)) | set(keyword.kwlist)
        foreign: set[str] = set()
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            match node:
                case ast.ClassDef(name=name):
                    self.plain.add(name)
                    self._class_level(node)
                case ast.FunctionDef(name=name):
                    self.plain.add(name)
                case ast.Name(id=name, ctx=ast.Store()):
                    self.plain.add(name)
                case ast.arg(arg=name):
                    self.plain.add(name)
                case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                    self.plain.add(name)
                case ast.ExceptHandler(name=str(name)):
                    kept.add(name)
                case ast.keyword(arg=str(name)):
                    kept.add(name)
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    self.attributes.add(name)
                case ast.JoinedStr():
                    kept |= _words(node)
                case _:
                    pass
            if isinstance(node, ast.Attribute):
                own = isinstance(node.value, ast.Name) and node.value.id == "self"
                if not own and id(node) not in called and _chain_root(node) not in self.imported:
                    foreign.add(node.attr)
        library = _library_names()
        prefixes = _literal_prefixes(tree)
        for name in self.plain | self.attributes:
            unclear = name in library and name in self.attributes and name in foreign
            if unclear or name.startswith("__") or any(name.startswith(prefix) for prefix in prefixes):
                kept.add(name)
        kept |= (_method_names(tree) & library) | _exported(tree) | _literal_words(tree)
        self.plain -= kept
        self.attributes -= kept

    def _class_level(self, node: ast.ClassDef) -> None:
        for each in node.body:
            if isinstance(each, ast.FunctionDef):
                self.attributes.add(each.name)
            elif isinstance(each, ast.Assign | ast.AnnAssign):
                self.attributes |= _defines(each)

    def all(self) -> list[str]:
        """The names to replace, in a fixed order."""
        return sorted(self.plain | self.attributes)

    def attribute_token(self, name: str, receiver: str, root: str) -> bool:
        """Is ``.name`` one of the file's own attributes here?"""
        if name not in self.attributes or root in self.imported:
            return False
        return receiver == "self" or name not in _library_names()


def _chain_root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _method_names(tree: ast.AST) -> set[str]:
    return {
        each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.FunctionDef)
    }


def _exported(tree: ast.Module) -> set[str]:
    return {
        item.value
        for node in tree.body
        if isinstance(node, ast.Assign) and "__all__" in _defines(node)
        for item in ast.walk(node.value)
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    }


def _words(node: ast.AST) -> set[str]:
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def _literal_parts(tree: ast.AST) -> Iterator[str]:
    """The literal parts of texts that are put together at run time."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.JoinedStr):
            parts = node.values
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            parts = [node.func.value]
        for part in parts:
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.strip():
                yield part.value


def _literal_prefixes(tree: ast.AST) -> set[str]:
    """Starts of attribute names that are put together at run time."""
    prefixes = {part.split("%")[0].split("{")[0] for part in _literal_parts(tree)}
    return {prefix for prefix in prefixes if prefix}


def _literal_words(tree: ast.AST) -> set[str]:
    """Whole names in texts that are put together at run time: ``bn`` of ``f"blocks.{index}.bn"``."""
    return {word for part in _literal_parts(tree) if "." in part for word in re.findall(r"[^\W\d]\w*", part)}


@lru_cache(maxsize=1)
def _library_names() -> frozenset[str]:
    """Names that objects of torch and of Python have."""
    torch = importlib.import_module("torch")
    modules = ["torch.nn", "torch.nn.functional", "torch.ao.quantization", "torch.ao.nn.quantized"]
    owners: list[object] = [torch, torch.Tensor, torch.nn.Module, torch.nn.ModuleDict, torch.optim.Optimizer]
    owners += [importlib.import_module(name) for name in modules]
    owners += [importlib.import_module("torch.ao.nn.quantized").FloatFunctional]
    owners += [importlib.import_module("torch.ao.quantization").QConfigMapping]
    owners += [list, dict, tuple, str, set, int]
    return frozenset(name for owner in owners for name in dir(owner))


# other imports


def bindings(tree: ast.AST) -> dict[str, str]:
    """Local name to the qualified name it was imported as."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                found[name.asname or name.name.split(".")[0]] = name.name if name.asname else name.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                found[name.asname or name.name] = f"{'.' * node.level}{node.module or ''}.{name.name}"
    return found


@cache
def _module_of(qualified: str) -> str:
    """The longest prefix that can be imported."""
    parts = qualified.split(".")
    module = parts[0]
    for length in range(2, len(parts) + 1):
        name = ".".join(parts[:length])
        try:
            importlib.import_module(name)
        except ImportError:
            break
        module = name
    return module


Spelling = Callable[[str], tuple[str, str]]
"""A qualified name to the import statement it needs and the expression to write."""


def fully_qualified(qualified: str) -> tuple[str, str]:
    """``import torch.ao.quantization`` and ``torch.ao.quantization.QuantStub``."""
    return f"import {_module_of(qualified)}", qualified


def module_alias(qualified: str) -> tuple[str, str]:
    """``import torch.nn as z_torch_nn`` and ``z_torch_nn.Conv2d``."""
    module = _module_of(qualified)
    alias = "z_" + module.replace(".", "_")
    return f"import {module} as {alias}", alias + qualified[len(module) :]


def name_alias(qualified: str) -> tuple[str, str]:
    """``from torch.nn import Conv2d as z_Conv2d`` and ``z_Conv2d``."""
    module = _module_of(qualified)
    if module == qualified:
        return module_alias(qualified)
    name, _, rest = qualified[len(module) + 1 :].partition(".")
    return f"from {module} import {name} as z_{name}", f"z_{name}{'.' + rest if rest else ''}"


OLD_NAMES = (
    ("torch.ao.quantization", "torch.quantization"),
    ("torch.ao.nn.quantized", "torch.nn.quantized"),
    ("torch.ao.nn.intrinsic", "torch.nn.intrinsic"),
    ("torch.ao.nn.qat", "torch.nn.qat"),
)


def old_namespace(qualified: str) -> tuple[str, str]:
    """``torch.quantization.QuantStub``; raises LookupError where the old namespace lacks the name."""
    for new, old in OLD_NAMES:
        if qualified == new or qualified.startswith(new + "."):
            qualified = old + qualified[len(new) :]
            value: object = importlib.import_module("torch")
            for part in qualified.split(".")[1:]:
                if not hasattr(value, part):
                    raise LookupError(qualified)
                value = getattr(value, part)
    return "import torch", qualified


def respelled(spelling: Spelling) -> Rewriter:
    """A rewrite that spells every name of torch in this way."""

    def rewrite(original: Original) -> Rewrite | None:
        return _respell(original, spelling)

    rewrite.__name__ = f"imports_{spelling.__name__}"
    rewrite.__doc__ = spelling.__doc__
    return rewrite


def _respell(original: Original, spelling: Spelling) -> Rewrite | None:
    tree = original.tree
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    ours = [n for n in imports if _of_torch(n)]
    names = bindings(ast.Module(body=list(ours), type_ignores=[]))
    stars = any(name.name == "*" for node in imports for name in node.names)
    if not ours or stars or any(node not in tree.body for node in ours) or _shadowed(tree, set(names)):
        return None
    statements: dict[str, None] = {"import torch": None}
    edits: dict[int, list[tuple[int, int, str]]] = {}
    try:
        for node in _chains(tree):
            root = _chain_root(node)
            if root not in names:
                continue
            if node.lineno != node.end_lineno:
                return None
            text = ast.unparse(node)
            statement, new = spelling(names[root] + text[len(root) :])
            statements[statement] = None
            row = original.rows[node.lineno - 1]
            start, end = _column(row, node.col_offset), _column(row, node.end_col_offset or 0)
            edits.setdefault(node.lineno, []).append((start, end, new))
    except LookupError:
        return None
    lines: list[Line] = []
    starts = {node.lineno for node in ours}
    inside = {row for n in ours for row in range(n.lineno, (n.end_lineno or n.lineno) + 1)}
    if any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in imports):
        return None
    for line in original.lines():
        assert line.origin is not None
        if line.origin == min(starts):
            lines += [Line(statement, line.origin) for statement in statements]
        elif line.origin not in inside:
            text = line.text
            for start, end, new in sorted(edits.get(line.origin, []), reverse=True):
                text = text[:start] + new + text[end:]
            lines.append(Line(text, line.origin))
    result = one_file(lines)
    return result if _parses(result) else None


def _of_torch(node: ast.Import | ast.ImportFrom) -> bool:
    modules = [name.name for name in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return all(module == "torch" or module.startswith("torch.") for module in modules)


def _shadowed(tree: ast.AST, names: set[str]) -> bool:
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    stored |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    stored |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return bool(stored & names)


def _chains(tree: ast.AST) -> Iterator[ast.expr]:
    """The longest dotted names that are read; of an assigned one, what stands before its last dot."""
    inner: set[ast.AST] = set()
    for node in ast.walk(tree):
        if node in inner or not isinstance(node, ast.Attribute | ast.Name):
            continue
        chain: ast.expr = node
        while isinstance(chain, ast.Attribute):
            chain = chain.value
            inner.add(chain)
        if isinstance(chain, ast.Name):
            if isinstance(node.ctx, ast.Load):
                yield node
            elif isinstance(node, ast.Attribute):
                yield node.value


def _column(row: str, byte: int) -> int:
    return len(row.encode("utf-8")[:byte].decode("utf-8"))


REWRITERS: tuple[Rewriter, ...] = (
    crlf,
    tabs,
    spread,
    dead_code,
    reorder_methods,
    forward_in_base,
    init_in_base,
    split_classes,
    split_inner_classes,
    rename,
    respelled(fully_qualified),
    respelled(module_alias),
    respelled(name_alias),
    respelled(old_namespace),
)
