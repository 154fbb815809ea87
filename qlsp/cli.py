"""The command line: options and exit status. The commands are loaded when they run: ``--version`` stays fast."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from qlsp import __version__
from qlsp.commands.output import FAILED, INTERRUPTED, OK, UsageError, complain
from qlsp.config import FAIL_ON, MODES, WORKFLOWS, ConfigError, did_you_mean

OUTPUT_FORMATS = ("full", "concise", "json", "json-lines", "sarif", "github", "gitlab", "junit")


def run() -> None:
    """Entry point of the ``qlsp`` command."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run one command and return the exit status; no exception gets out, and no traceback is shown."""
    try:
        arguments = _parser().parse_args(argv)
        module, name = arguments.command
        status: int = getattr(import_module(f"qlsp.commands.{module}"), name)(arguments)
        return status
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else OK
    except (ConfigError, UsageError) as error:
        complain(str(error))
        return FAILED
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("QLSP_DEBUG"):
            traceback.print_exc()
        message = " ".join(str(error).split())
        complain(f"internal error: {type(error).__name__}: {message}; please report it")
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="qlsp", description="Finds quantization mistakes in PyTorch source code.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"qlsp {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    check = commands.add_parser("check", help="report findings in files and folders", allow_abbrev=False)
    check.set_defaults(command=("check", "check"))
    check.add_argument(
        "paths", nargs="*", metavar="PATH", help="files or folders (default: this one), or - for standard input"
    )
    check.add_argument("--files-from", metavar="FILE", help="also check the paths that a file, or -, lists")
    check.add_argument("--stdin-filename", metavar="PATH", help="the file that standard input stands for")
    _add_selection_options(check)
    check.add_argument("--fix", action="store_true", help="apply safe fixes to the files")
    check.add_argument("--unsafe-fixes", action="store_true", help="with --fix or --diff: unsafe fixes too")
    check.add_argument("--fix-only", action="store_true", help="apply fixes and report nothing that is left")
    check.add_argument("--diff", action="store_true", help="show what --fix would change, and change nothing")
    check.add_argument("--show-fixes", action="store_true", help="list on stderr the fixes that were made")
    check.add_argument("--exit-zero", action="store_true", help="exit 0 although there are findings")
    check.add_argument(
        "--output-format",
        action="append",
        default=[],
        type=_output_format,
        metavar="FORMAT[=FILE]",
        help=f"{', '.join(OUTPUT_FORMATS)}; full is the default on a terminal, concise elsewhere; may be repeated "
        "with files",
    )
    check.add_argument("--output-file", metavar="FILE", help="write the report there")
    check.add_argument(
        "--add-ignore", action="store_true", help="add a comment to every line with a finding that ignores it"
    )
    check.add_argument("--baseline", metavar="FILE", help="hide the findings that this file knows")
    check.add_argument("--write-baseline", metavar="FILE", help="write a file that knows all findings")
    check.add_argument("--statistics", action="store_true", help="say on stderr what could be decided")
    check.add_argument("-v", "--verbose", action="store_true", help="with --statistics: list every place")
    _add_config_options(check)

    inspect = commands.add_parser("inspect", help="show the quantization map of models", allow_abbrev=False)
    inspect.set_defaults(command=("inspect", "inspect"))
    inspect.add_argument("targets", nargs="+", metavar="PATH[:CLASS]", help="files or folders")
    inspect.add_argument("--output-format", choices=("text", "json"), default="text")
    _add_config_options(inspect)

    server = commands.add_parser("server", help="language server for editors", allow_abbrev=False)
    server.set_defaults(command=("server", "server"))
    server.add_argument("--tcp", metavar="HOST:PORT", help="listen there instead of using standard input")

    config = commands.add_parser(
        "config", help="show the configuration of a file or folder", allow_abbrev=False
    )
    config.set_defaults(command=("configuration", "config"))
    config.add_argument("path", nargs="?", default=".", metavar="PATH")
    config.add_argument("--output-format", choices=("text", "json"), default="text")
    _add_selection_options(config)
    _add_config_options(config)

    explain = commands.add_parser(
        "explain", help="print the page of a rule, or of the rule behind an error text", allow_abbrev=False
    )
    explain.set_defaults(command=("explain", "explain"))
    explain.add_argument("words", nargs="*", metavar="RULE", help="a code, a name, or a pasted error text")
    explain.add_argument("--all", action="store_true", help="every rule")
    explain.add_argument("--output-format", choices=("text", "json", "markdown"), default="text")
    return parser


def _add_selection_options(parser: argparse.ArgumentParser) -> None:
    for option, text in (
        ("--select", "rules to use: codes, prefixes or names"),
        ("--ignore", "rules not to use"),
        ("--extend-select", "rules to use besides the selected ones"),
    ):
        parser.add_argument(option, action="append", type=_names, metavar="RULES", help=text)
    parser.add_argument("--fail-on", choices=FAIL_ON, help="exit 1 for findings of this severity or worse")


def _add_config_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE | KEY=VALUE",
        help="a configuration file, or one value as TOML; may be repeated",
    )
    parser.add_argument("--isolated", action="store_true", help="read no configuration file")
    parser.add_argument("--workflow", choices=WORKFLOWS, help="how the models are quantized")
    parser.add_argument("--mode", choices=MODES, help="post-training, or quantization-aware training")


def _output_format(value: str) -> tuple[str, str | None]:
    """Format and file of ``FORMAT`` or ``FORMAT=FILE``."""
    name, equals, file = value.partition("=")
    if name not in OUTPUT_FORMATS:
        raise argparse.ArgumentTypeError(f"unknown format {name}" + did_you_mean(name, OUTPUT_FORMATS))
    if equals and not file:
        raise argparse.ArgumentTypeError(f"{value} names no file")
    return name, file or None


def _names(value: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in value.split(",")) if name)
