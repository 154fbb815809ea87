"""The project on disk: which file a module name means. Files are read, never imported."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence

from qlsp.analysis.program import LIBRARIES, ModuleModel
from qlsp.environment import registrations
from qlsp.notebook import read, source_of
from qlsp.syntax.parse import parse_file
from qlsp.text import Source, SourceError

MAX_REACHABLE = 400
"""Files that are followed from one file over its imports."""

MAX_FOLDERS = 8
"""Folders above a file in which a path that it names may start."""


class Project:
    """Finds and parses files. ``dependencies`` records, per analysed file, every module name that was asked
    for and the file it led to, so that a change can be traced to the results it touches."""

    def __init__(
        self,
        src: Callable[[str], Sequence[str]] | None = None,
        texts: Mapping[str, str] | None = None,
        packages: Callable[[str], Sequence[str]] | None = None,
    ) -> None:
        """``src`` gives the folders where absolute imports of a file start from, besides its own; ``packages``
        those of installed packages, which come last."""
        self.src = src or (lambda importer: ())
        self.packages = packages or (lambda importer: ())
        self.texts = dict(texts or {})
        self.sources: dict[str, Source] = {}
        self.dependencies: dict[str, dict[str, str | None]] = {}
        self._modules: dict[str, ModuleModel | None] = {}
        self._found: dict[tuple[str, tuple[str, ...]], str | None] = {}
        self._located: dict[tuple[str, str], str | None] = {}
        self._given = {os.path.abspath(path): path for path in self.texts}
        self._spelled = dict(self._given)
        self._tops: dict[str, str] = {}
        self._tricks: dict[str, tuple[frozenset[str], tuple[str, ...]]] = {}
        self._installed: set[str] = set()
        self._imported: dict[str, tuple[ModuleModel, ...]] = {}

    def load(self, path: str) -> ModuleModel:
        """The module of a file; raises ``SourceError`` if it cannot be read."""
        known = self._modules.get(path)
        if known is not None:
            return known
        source = source_of(path, self.texts[path]) if path in self.texts else read(path)
        self.sources[path] = source
        self._spelled.setdefault(os.path.abspath(path), path)
        name, is_package = self.module_name(path, _levels(source))
        module = ModuleModel(parse_file(source), name, is_package)
        self._modules[path] = module
        return module

    def modules(self) -> list[ModuleModel]:
        """Every file that was read."""
        return [module for module in self._modules.values() if module is not None]

    def module_at(self, path: str) -> ModuleModel | None:
        """The module of a file that was read before."""
        return self._modules.get(path)

    def module_name(self, path: str, levels: int = 0) -> tuple[str, bool]:
        """The dotted name of a file within its package, and whether it is a package itself. Folders without an
        ``__init__.py`` are packages as well, as far as relative imports of so many ``levels`` go up in them."""
        directory, file = os.path.split(path)
        stem = file.removesuffix(".py").removesuffix(".pyi")
        parts = [] if stem == "__init__" else [stem]
        while directory and self._exists(os.path.join(directory, "__init__.py")):
            directory, folder = os.path.split(directory)
            parts.insert(0, folder)
        missing = levels - (len(parts) if stem == "__init__" else len(parts) - 1)
        above = os.path.abspath(directory) if missing > 0 and levels > 1 else ""
        for _ in range(missing if above else 0):
            above, folder = os.path.split(above)
            if not folder.isidentifier():
                break
            parts.insert(0, folder)
            self._tops[path] = above
        return ".".join(parts) or stem, stem == "__init__"

    def find(self, module: str, importer: str) -> ModuleModel | None:
        """The module of this name as seen from a file."""
        path = self.locate(module, importer)
        self.dependencies.setdefault(importer, {})[module] = path
        if path is None:
            return None
        if path not in self._modules:
            try:
                self.load(path)
            except SourceError:
                self._modules[path] = None
        return self._modules[path]

    def file(self, name: str, importer: str) -> ModuleModel | None:
        """The file that a relative path names, as seen from a file or one of the folders above it."""
        folder = os.path.dirname(importer)
        for _ in range(MAX_FOLDERS):
            path = os.path.normpath(os.path.join(folder, name))
            if self._exists(path):
                self.dependencies.setdefault(importer, {})[name] = path
                if path not in self._modules:
                    try:
                        self.load(path)
                    except SourceError:
                        self._modules[path] = None
                return self._modules[path]
            parent = os.path.dirname(folder)
            if parent == folder or os.path.isabs(name):
                break
            folder = parent
        self.dependencies.setdefault(importer, {})[name] = None
        return None

    def reachable(self, path: str) -> list[ModuleModel]:
        """The files of the project that importing a file runs, itself first."""
        start = self._modules.get(path)
        found = {path: start} if start is not None else {}
        queue = list(found.values())
        while queue and len(found) < MAX_REACHABLE:
            for module in self._imports_of(queue.pop(0)):
                if module.path not in found:
                    found[module.path] = module
                    queue.append(module)
        return list(found.values())

    def _imports_of(self, module: ModuleModel) -> tuple[ModuleModel, ...]:
        """The files that the import statements of a file run: the modules they name and the packages around them."""
        if module.path not in self._imported:
            found: dict[str, ModuleModel] = {}
            for target in module.imported:
                parts = target.split(".")
                for length in range(1, len(parts) + 1):
                    imported = self.find(".".join(parts[:length]), module.path)
                    if imported is not None and not self.installed(imported.path):
                        found[imported.path] = imported
            self._imported[module.path] = tuple(found.values())
        return self._imported[module.path]

    def registered(self, package: str, name: str, importer: str) -> tuple[ModuleModel, str] | None:
        """The module and the function that an installed package registers under a name."""
        start = self.locate(package, importer)
        if start is None:
            return None
        found = registrations(os.path.dirname(os.path.abspath(start))).get(name)
        if found is None:
            return None
        path, function = found
        path = self._spelled.setdefault(path, path)
        self.dependencies.setdefault(importer, {})[f"{package}:{name}"] = path
        try:
            return self.load(path), function
        except SourceError:
            return None

    def locate(self, module: str, importer: str) -> str | None:
        """The file of a module as seen from another file; it is not read."""
        if importer not in self._modules:
            return self._locate(module, importer)
        key = (module, importer)
        if key not in self._located:
            self._located[key] = self._locate(module, importer)
        return self._located[key]

    def _locate(self, module: str, importer: str) -> str | None:
        top = module.partition(".")[0]
        if top in LIBRARIES:
            return None
        roots = self._roots(importer, top)
        key = (module, roots)
        if key not in self._found:
            path = self._search(module, roots)
            self._found[key] = path and self._spelled.setdefault(os.path.abspath(path), path)
        path = self._found[key]
        return path if path is None or not self._is_replaced(module, path, importer) else None

    def _is_replaced(self, module: str, path: str, importer: str) -> bool:
        """Does a file put another module in the place of one, or another folder before all others that has one?"""
        if importer not in self._tricks:
            source = self.sources.get(importer)
            segments = source.segments if source is not None else ()
            self._tricks[importer] = _tricks("\n".join(each.text for each in segments if "sys." in each.text))
        modules, folders = self._tricks[importer]
        if module in modules:
            return True
        starts = [os.path.join(os.path.dirname(importer), folder) for folder in folders]
        first = self._search(module, tuple([*starts, *folders])) if folders else None
        return first is not None and os.path.abspath(first) != os.path.abspath(path)

    def installed(self, path: str) -> bool:
        """Does a file that was found belong to an installed package?"""
        return any(path.startswith(folder + os.sep) for folder in self._installed)

    def _roots(self, importer: str, top: str) -> tuple[str, ...]:
        """The folders in which a top-level package is looked for."""
        directory = os.path.dirname(importer)
        root = directory
        while root and self._exists(os.path.join(root, "__init__.py")):
            parent, folder = os.path.split(root)
            if parent == root:
                break
            root = parent
        roots = [root]
        if root != directory and os.path.basename(root) == "site-packages":
            package = os.path.relpath(directory, root).split(os.sep)[0]
            return (root,) if top == package else ()
        more = (self._tops.get(importer), *self.src(importer), directory)
        roots.extend(folder for folder in dict.fromkeys(more) if folder is not None and folder not in roots)
        packages = self.packages(importer)
        here = os.path.abspath(importer)
        self._installed.update(folder for folder in packages if not here.startswith(folder + os.sep))
        roots.extend(folder for folder in packages if folder not in roots)
        return tuple(roots)

    def _search(self, module: str, roots: tuple[str, ...]) -> str | None:
        relative = module.replace(".", os.sep)
        for root in roots:
            base = os.path.join(root, relative) if root else relative
            for path in (os.path.join(base, "__init__.py"), f"{base}.py"):
                if self._exists(path):
                    return path
            if self._exists(f"{base}.pyi") or self._exists(os.path.join(base, "__init__.pyi")):
                return None  # compiled, or it comes from elsewhere
        return None

    def _exists(self, path: str) -> bool:
        if self.texts and (path in self.texts or os.path.abspath(path) in self._given):
            return True
        return os.path.isfile(path)


_RELATIVE = re.compile(r"\bfrom[ \t]*(\.[. \t]*)")


def _levels(source: Source) -> int:
    """How many folders up the relative imports of a file go, its own counted."""
    found = (match[1].count(".") for each in source.segments for match in _RELATIVE.finditer(each.text))
    return max(found, default=0)


_REPLACED = re.compile(r"\bsys\.modules\[\s*[\"']([\w.]+)[\"']\s*\]\s*=")
_PUT_FIRST = re.compile(r"\bsys\.path(?:\.insert\(\s*0\s*,|\s*=|\[:0\]\s*=)([^\n]*)")
_TEXT = re.compile(r"[\"']([^\"'\n]+)[\"']")


def _tricks(text: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """The modules that a text replaces, and the names of folders in which it lets imports begin."""
    folders = (name for line in _PUT_FIRST.findall(text) for name in _TEXT.findall(line))
    return frozenset(_REPLACED.findall(text)), tuple(folders)
