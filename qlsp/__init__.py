"""qlsp reads PyTorch quantization code and says, before training, what will go wrong in int8.

As a library::

    from qlsp import check_source

    for item in check_source("import torch\\n...", "net.py"):
        print(item.code, item.place.span.start, item.name)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qlsp.config import Config, Configs
    from qlsp.diagnostics import Diagnostic
    from qlsp.fixing import Fixed

__version__ = "0.1.0"
__all__ = ["check_paths", "check_source", "fix_source"]


def check_source(text: str, path: str = "source.py", config: Config | None = None) -> list[Diagnostic]:
    """The findings in one text, in order of place.

    Pure: no file is read but those that the text imports from the folder of ``path``, nothing is written, equal
    arguments give equal results. Arguments and result are picklable, so it can be mapped over many texts by any
    scheduler. ``config`` holds the defaults if it is None. A text that does not parse is a QL001 finding.
    """
    from qlsp.config import Config
    from qlsp.engine import check

    return list(check([path], config or Config(), {path: text}, [path]).diagnostics)


def check_paths(paths: Sequence[str], configs: Configs | None = None) -> list[Diagnostic]:
    """The findings in files and folders, each judged by the configuration file nearest to it (or by ``configs``).

    Folders are searched as ``qlsp check`` does, and files of the project that use those are in view. A path that does
    not exist raises ``FileNotFoundError``, a broken configuration ``qlsp.config.ConfigError``; a file that cannot be
    read is a QL001 finding.
    """
    from qlsp.config import Resolver
    from qlsp.discover import collect
    from qlsp.engine import check, validate
    from qlsp.importers import ImportIndex

    resolver = Resolver(check=validate) if configs is None else configs
    files = collect(list(paths), resolver)
    if files.failed:
        raise FileNotFoundError("; ".join(files.complaints))
    importers = ImportIndex().around(files.paths, resolver)
    return list(check(files.paths, resolver, named=files.named, importers=importers).diagnostics)


def fix_source(text: str, path: str = "source.py", config: Config | None = None, unsafe: bool = False) -> Fixed:
    """A text after its safe fixes (and the unsafe ones, if asked for): ``fix_source(text).texts.get(path, text)``."""
    from qlsp import fixing
    from qlsp.config import Config

    return fixing.fix_source(text, path, config or Config(), unsafe)
