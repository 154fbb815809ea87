"""A generated program under Python: how its files are imported, and where in them a frame stands.

A file is called by its path below the root of the program; the one that holds `Net` by the empty string.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec

COMPREHENSIONS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
Line = tuple[str, int]
NO_FILES: Mapping[str, str] = types.MappingProxyType({})


@dataclass(frozen=True)
class Place:
    """A call expression: 1-based rows, and columns in code points, the end exclusive."""

    row: int
    column: int
    end_row: int
    end_column: int
    file: str = ""

    @property
    def line(self) -> Line:
        return self.file, self.row


@dataclass(frozen=True)
class Step:
    """A call on the way to another: the function it stands in and the row of the call."""

    function: str
    row: int


class Program:
    """The files of a program. `files` is from the name in a frame to the file, `texts` from the file to its text."""

    def __init__(self, text: str, filename: str, main: str = "", others: Mapping[str, str] = NO_FILES) -> None:
        self.filename = filename
        self.main = main
        self.texts = {"": text, **others}
        root = filename.removesuffix(main)
        self.files = {filename: "", **{os.path.join(root, name): name for name in others}}

    def load(self) -> types.ModuleType:
        """Import the file that holds `Net`.

        Raises what the files raise; nothing of them stays in `sys.modules`.
        """
        if self.main:
            with importable(self):
                return importlib.import_module(_dotted(self.main))
        module = types.ModuleType(f"oracle_{abs(hash(self.filename))}")
        sys.modules[module.__name__] = module  # dataclasses look their module up
        try:
            exec(compile(self.texts[""], self.filename, "exec"), module.__dict__)
        finally:
            del sys.modules[module.__name__]
        return module


def _dotted(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


class Importer(MetaPathFinder, InspectLoader):
    """Imports the files of one program from memory."""

    def __init__(self, program: Program) -> None:
        names = {file: name for name, file in program.files.items()}
        paths = {file: file or program.main for file in program.texts}
        self.modules = {_dotted(path): (program.texts[file], names[file]) for file, path in paths.items()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.modules:
            return None
        return ModuleSpec(fullname, self, origin=self.modules[fullname][1], is_package=self.is_package(fullname))

    def is_package(self, fullname: str) -> bool:
        return os.path.basename(self.modules[fullname][1]) == "__init__.py"

    def get_source(self, fullname: str) -> str:
        return self.modules[fullname][0]

    def get_code(self, fullname: str) -> types.CodeType:
        return compile(*self.modules[fullname], "exec")


@contextmanager
def importable(program: Program) -> Iterator[None]:
    """Let the files of the program be imported, before any other module of their names."""
    importer = Importer(program)
    hidden = {name: sys.modules.pop(name) for name in importer.modules if name in sys.modules}
    sys.meta_path.insert(0, importer)
    try:
        yield
    finally:
        sys.meta_path.remove(importer)
        for name in importer.modules:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


class Positions:
    """From frames to call expressions of a program."""

    def __init__(self, program: Program) -> None:
        self.files = program.files
        self._lines = {file: text.split("\n") for file, text in program.texts.items()}
        self._calls = {
            (file, node.end_lineno, node.end_col_offset): node
            for file, text in program.texts.items()
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Call)
        }

    def stack(self, frame: types.FrameType | None) -> list[types.FrameType]:
        """The frames of the program at and above `frame`, innermost first."""
        found = []
        while frame is not None:
            if frame.f_code.co_filename in self.files and frame.f_code.co_name != "<module>":
                found.append(frame)
            frame = frame.f_back
        return found

    def call(self, frame: types.FrameType) -> Place:
        """The call expression `frame` is executing.

        An instruction of a method call may start at the attribute, so the expression is found by its end.
        """
        file = self.files[frame.f_code.co_filename]
        positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
        row, end_row, column, end_column = (value or 0 for value in positions)
        node = self._calls.get((file, end_row, end_column))
        if node is not None:
            row, column = node.lineno, node.col_offset
        lines = self._lines[file]
        return Place(row, _code_points(lines, row, column), end_row, _code_points(lines, end_row, end_column), file)

    def path(self, frames: Sequence[types.FrameType]) -> tuple[Step, ...]:
        """The calls that led to the innermost frame, outermost first; running a comprehension is no call."""
        steps = [
            Step(frame.f_code.co_qualname, self.call(frame).row)
            for callee, frame in zip(frames, frames[1:], strict=False)
            if callee.f_code.co_name not in COMPREHENSIONS
        ]
        return tuple(reversed(steps))


def _code_points(lines: Sequence[str], row: int, column: int) -> int:
    return len(lines[row - 1].encode()[:column].decode()) + 1
