"""The command line. Commands import the library themselves: ``--version`` and ``explain`` stay fast."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from qlsp import __version__
from qlsp.config import (
    FAIL_ON,
    MODES,
    WORKFLOWS,
    ConfigError,
    Configs,
    Resolved,
    Resolver,
    as_toml,
    did_you_mean,
    selected,
    toml_key,
    values_of,
)
from qlsp.diagnostics import Diagnostic, Message, Severity
from qlsp.discover import Collection, collect

if TYPE_CHECKING:
    from qlsp.engine import CheckResult
    from qlsp.qmap import MapRoot
    from qlsp.report.findings import Findings
    from qlsp.report.layout import Locator
    from qlsp.rules.api import Rule
    from qlsp.statistics import Statistics
    from qlsp.text import Source

OK, FINDINGS, FAILED, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses: nothing left to report, findings, the tool or its arguments failed, Ctrl-C."""

OUTPUT_FORMATS = ("full", "concise", "json", "json-lines", "sarif", "github", "gitlab", "junit")

STDIN = "-"

TOP_REASONS = 10
PLACES_PER_REASON = 3


class UsageError(Exception):
    """Arguments that cannot be used; the message is one line for the user."""


def run() -> None:
    """Entry point of the ``qlsp`` command."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run one command and return the exit status; no exception gets out, and no traceback is shown."""
    try:
        arguments = _parser().parse_args(argv)
        command: Callable[[argparse.Namespace], int] = arguments.command
        return command(arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else OK
    except (ConfigError, UsageError) as error:
        _complain(str(error))
        return FAILED
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("QLSP_DEBUG"):
            traceback.print_exc()
        message = " ".join(str(error).split())
        _complain(f"internal error: {type(error).__name__}: {message}; please report it")
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="qlsp", description="Finds quantization mistakes in PyTorch source code.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"qlsp {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    check = commands.add_parser("check", help="report findings in files and folders", allow_abbrev=False)
    check.set_defaults(command=_check)
    check.add_argument(
        "paths", nargs="*", default=["."], metavar="PATH", help="files or folders, or - for standard input"
    )
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
    check.add_argument("--statistics", action="store_true", help="say on stderr what could be decided")
    check.add_argument("-v", "--verbose", action="store_true", help="with --statistics: list every place")
    _add_config_options(check)

    inspect = commands.add_parser("inspect", help="show the quantization map of models", allow_abbrev=False)
    inspect.set_defaults(command=_inspect)
    inspect.add_argument("targets", nargs="+", metavar="PATH[:CLASS]", help="files or folders")
    inspect.add_argument("--output-format", choices=("text", "json"), default="text")
    _add_config_options(inspect)

    server = commands.add_parser("server", help="language server for editors", allow_abbrev=False)
    server.set_defaults(command=_server)
    server.add_argument("--tcp", metavar="HOST:PORT", help="listen there instead of using standard input")

    config = commands.add_parser(
        "config", help="show the configuration of a file or folder", allow_abbrev=False
    )
    config.set_defaults(command=_config)
    config.add_argument("path", nargs="?", default=".", metavar="PATH")
    config.add_argument("--output-format", choices=("text", "json"), default="text")
    _add_selection_options(config)
    _add_config_options(config)

    explain = commands.add_parser(
        "explain", help="print the page of a rule, or of the rule behind an error text", allow_abbrev=False
    )
    explain.set_defaults(command=_explain)
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


# check


def _check(arguments: argparse.Namespace) -> int:
    if STDIN not in arguments.paths and arguments.stdin_filename is not None:
        raise UsageError("--stdin-filename needs - among the paths")
    if sum(file is None for _, file in arguments.output_format) > 1:
        raise UsageError("only one --output-format can go to one place, give the others as FORMAT=FILE")
    fixing = arguments.fix or arguments.fix_only or arguments.diff
    if fixing and arguments.add_ignore:
        raise UsageError("--add-ignore cannot be used with fixes")
    if STDIN in arguments.paths and arguments.add_ignore:
        raise UsageError("--add-ignore cannot change standard input")
    configs = _configs(arguments)
    for path in arguments.paths:
        configs.of(arguments.stdin_filename or STDIN if path == STDIN else path)
    files = collect([path for path in arguments.paths if path != STDIN], configs)
    given: dict[str, Source] = {}
    unreadable: list[Diagnostic] = []
    if STDIN in arguments.paths:
        _read_stdin(arguments.stdin_filename or STDIN, configs, given, unreadable)
    texts = {path: source.text for path, source in given.items()}

    from qlsp.engine import check

    paths = [*texts, *(path for path in files.paths if path not in texts)]
    if fixing:
        result, changed = _fix(arguments, paths, configs, files, given)
        if arguments.diff or arguments.fix_only:
            _complain_lines(f"qlsp: {line}" for line in files.complaints)
            if result.crashed or files.failed:
                return FAILED
            return FINDINGS if arguments.diff and changed and not arguments.exit_zero else OK
    else:
        result = check(paths, configs, texts, files.named | set(texts), arguments.statistics)
    if arguments.add_ignore and _add_ignores(result, files):
        result = check(paths, configs, texts, files.named | set(texts), arguments.statistics)
    diagnostics = [*unreadable, *result.diagnostics]
    failed = result.crashed or files.failed
    _write_reports(arguments, _findings(result, diagnostics, failed), to_stderr=fixing and bool(texts))
    if arguments.statistics:
        _complain_lines(_statistics_lines(result, arguments.verbose))
    for line in files.complaints:
        _complain(line)
    if failed:
        return FAILED
    left = any(item.severity.rank >= configs.of(item.place.path).fail_on.rank for item in diagnostics)
    return FINDINGS if left and not arguments.exit_zero else OK


def _configs(arguments: argparse.Namespace) -> Resolver:
    """The configuration of each file: that of the nearest configuration file, changed by the options."""
    from qlsp.engine import validate

    overrides: dict[str, tuple[str, object]] = {}
    for name in ("select", "ignore", "extend_select"):
        if (groups := getattr(arguments, name, None)) is not None:
            value: object = tuple(selector for group in groups for selector in group)
            overrides[f"--{name.replace('_', '-')}"] = (name, value)
    for name in ("workflow", "mode"):
        if (value := getattr(arguments, name)) is not None:
            overrides[f"--{name}"] = (name, value)
    if (value := getattr(arguments, "fail_on", None)) is not None:
        overrides["--fail-on"] = ("fail_on", Severity(value))
    return Resolver(arguments.isolated, arguments.config, overrides, validate)


def _rules() -> tuple[Rule, ...]:
    from qlsp.rules.api import all_rules

    return all_rules()


def _fix(
    arguments: argparse.Namespace,
    paths: Sequence[str],
    configs: Resolver,
    files: Collection,
    given: Mapping[str, Source],
) -> tuple[CheckResult, bool]:
    """Apply fixes, or show them as a diff. The result is that of the fixed files; True if any file changes."""
    from qlsp.engine import check
    from qlsp.fixing import encoded, fix_files, fix_texts
    from qlsp.report import changes

    texts = {path: source.text for path, source in given.items()}
    named = files.named | set(texts)
    if arguments.diff:
        fixed = fix_texts(paths, configs, texts, arguments.unsafe_fixes, named)
    else:
        written = fix_files(paths, configs, arguments.unsafe_fixes, named, texts)
        fixed = written.fixed
    sources, result = fixed.before.sources, fixed.after
    if arguments.diff:
        _write("".join(changes.diff(path, sources[path].text, text) for path, text in sorted(fixed.texts.items())))
    else:
        for path, source in given.items():
            _write_bytes(encoded(source, fixed.texts.get(path, source.text)))
        for line in written.failures:
            files.fail(line)
        if written.failures or arguments.statistics:
            now = {path: fixed.texts.get(path, text) for path, text in texts.items()}
            result = check(paths, configs, now, named, arguments.statistics)
    for one in fixed.broken:
        files.fail(f"{one.diagnostic.place.path}: a fix of {one.diagnostic.code} gave no Python, please report it")
    if not fixed.settled:
        files.fail("the fixes did not come to an end, please report it")
    if arguments.show_fixes:
        _complain_lines(changes.applied((one.diagnostic, one.fix) for one in fixed.applied))
    done = "would be fixed" if arguments.diff else "fixed"
    _complain(f"{_count(len(fixed.applied), 'finding')} {done} in {_count(len(fixed.texts), 'file')}")
    return result, bool(fixed.texts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _add_ignores(result: CheckResult, files: Collection) -> bool:
    """Add an ignore comment for each finding that one can hide; True if a file changed."""
    from qlsp.engine import with_ignores
    from qlsp.text import SourceError, write_source

    lines = written = 0
    for source, count in with_ignores(result):
        try:
            write_source(source)
        except SourceError as error:
            files.fail(f"{source.path}: {error}")
        else:
            lines, written = lines + count, written + 1
    _complain(f"ignore comments added: {lines} in {written} file{'' if written == 1 else 's'}")
    return written > 0


def _read_stdin(name: str, configs: Configs, given: dict[str, Source], unreadable: list[Diagnostic]) -> None:
    from qlsp.text import Place, SourceError, Span, decode

    try:
        given[name] = decode(name, sys.stdin.buffer.read())
    except SourceError as error:
        rule = next(rule.meta for rule in _rules() if rule.meta.code == "QL001")
        if selected(configs.of(name), rule, name):
            message = Message.of("unreadable-file", error=error)
            place = Place(name, Span(0, 0))
            unreadable.append(Diagnostic(rule.code, rule.name, message, Severity.ERROR, place))


def _findings(result: CheckResult, diagnostics: Sequence[Diagnostic], failed: bool) -> Findings:
    from qlsp.report.findings import Findings, RuleText
    from qlsp.report.page import as_markdown, summary

    rules = tuple(
        RuleText(
            rule.meta.code,
            rule.meta.name,
            summary(rule.page),
            as_markdown(rule.meta, rule.page),
            rule.meta.severity.value,
        )
        for rule in _rules()
    )
    return Findings(
        diagnostics, result.sources, result.suppressed, result.statistics.files, failed, rules, __version__
    )


def _write_reports(arguments: argparse.Namespace, findings: Findings, to_stderr: bool) -> None:
    """Write the findings in every format asked for; ``to_stderr``: standard output is taken."""
    from qlsp.report import full
    from qlsp.report.formats import FORMATS

    outputs: list[tuple[str | None, str | None]] = list(arguments.output_format) or [(None, None)]
    for name, file in outputs:
        target = file or arguments.output_file
        on_terminal = target is None and sys.stdout.isatty()
        chosen = name or ("full" if on_terminal else "concise")
        color = on_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        text = full.report(findings, color=color) if chosen == "full" else FORMATS[chosen](findings)
        if to_stderr and target is None:
            _complain_lines(text.splitlines())
        else:
            _write(text, target)


def _statistics_lines(result: CheckResult, every_place: bool) -> Iterator[str]:
    from qlsp.report.changes import share
    from qlsp.report.layout import Locator

    statistics = result.statistics
    yield f"files: {statistics.files} checked, {statistics.parsed} parsed"
    for kind, (decided, found) in statistics.by_kind.items():
        yield f"{kind}: {decided} of {found} decided"
    yield from _undecided_lines(statistics, Locator(result.sources), every_place)
    counts = ", ".join(f"{code} {count}" for code, count in sorted(statistics.findings.items()))
    yield f"findings: {counts or 'none'}"
    shares = share(result.diagnostics)
    if shares:
        shown = (f"{code} {some} of {found} ({safe} safe)" for code, (found, some, safe) in sorted(shares.items()))
        yield f"findings with a fix: {', '.join(shown)}"


def _undecided_lines(statistics: Statistics, locator: Locator, every_place: bool) -> Iterator[str]:
    reasons = Counter((kind, reason) for kind, reason, _ in statistics.undecided)
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    shown = ranked if every_place else ranked[:TOP_REASONS]
    for (kind, reason), count in shown:
        yield f"undecided: {count} {kind}: {reason}"
        places = [place for *key, place in statistics.undecided if tuple(key) == (kind, reason)]
        listed = places if every_place else places[:PLACES_PER_REASON]
        yield from (f"  {locator.name(place)}" for place in listed)
        if len(places) > len(listed):
            yield f"  and {len(places) - len(listed)} more (-v lists them)"
    if len(ranked) > len(shown):
        yield f"undecided: {len(ranked) - len(shown)} more reasons (-v lists them)"


# inspect


def _inspect(arguments: argparse.Namespace) -> int:
    targets = [_split_target(target) for target in arguments.targets]
    configs = _configs(arguments)

    from qlsp.engine import quant_map
    from qlsp.report import map as map_report

    roots: list[MapRoot] = []
    complaints: list[str] = []
    failed = False
    for class_name in dict.fromkeys(name for _, name in targets):
        files = collect([path for path, name in targets if name == class_name], configs)
        found = quant_map(_readable(files), configs, class_name)
        roots = list(dict.fromkeys([*roots, *found]))
        if class_name is not None and not found:
            files.fail(f"{class_name}: no model of this name")
        complaints += files.complaints
        failed = failed or files.failed
    if arguments.output_format == "json":
        _write(map_report.as_json(roots))
    else:
        _write(map_report.as_text(roots))
        if not roots and not complaints:
            complaints.append("no quantized model found")
    for line in complaints:
        _complain(line)
    return FAILED if failed else OK


def _readable(files: Collection) -> list[str]:
    from qlsp.text import SourceError, read_source

    paths = []
    for path in files.paths:
        try:
            read_source(path)
        except SourceError as error:
            files.fail(f"{path}: {error}")
        else:
            paths.append(path)
    return paths


def _split_target(target: str) -> tuple[str, str | None]:
    path, colon, name = target.rpartition(":")
    if colon and path and name.isidentifier() and not os.path.lexists(target):
        return path, name
    return target, None


# config


def _config(arguments: argparse.Namespace) -> int:
    if not os.path.lexists(arguments.path):
        raise UsageError(f"{arguments.path}: no such file or folder")
    resolved = _configs(arguments).resolved(arguments.path)
    rows = list(_config_rows(resolved))
    if arguments.output_format == "json":
        values = {".".join(map(toml_key, key)): {"value": value, "origin": origin} for key, value, origin in rows}
        file = str(resolved.file) if resolved.file else None
        record = {"path": arguments.path, "file": file, "root": resolved.config.root, "values": values}
        _write(json.dumps(record, indent=2) + "\n")
        return OK
    lines = [f"# {arguments.path}: {resolved.file or 'no configuration file'}"]
    for key, value, origin in rows:
        name = ".".join(map(toml_key, key))
        lines.append(f"# {name} is not set" if value is None else f"{name} = {as_toml(value)}  # {origin}")
    _write("".join(f"{line}\n" for line in lines))
    return OK


def _config_rows(resolved: Resolved) -> Iterator[tuple[tuple[str, ...], object, str]]:
    """Key, value and origin; the names in a table are keys of their own."""
    for key, value in values_of(resolved.config).items():
        if isinstance(value, dict) and value:
            for name, item in value.items():
                yield (key, name), item, resolved.origin(key, name)
        else:
            yield (key,), value, resolved.origin(key)


# explain


def _explain(arguments: argparse.Namespace) -> int:
    wanted = " ".join(arguments.words).strip()
    if bool(wanted) == arguments.all:
        raise UsageError("explain needs a rule, an error text or --all")
    exact = [rule for rule in _rules() if wanted in (rule.meta.code, rule.meta.name)]
    rules = list(_rules()) if arguments.all else exact or _rules_about(wanted)

    from qlsp.report import page

    if arguments.output_format == "json":
        records = [page.as_record(rule.meta, rule.page) for rule in rules]
        _write(json.dumps(records[0] if exact else records, indent=2) + "\n")
    else:
        write_page = page.as_markdown if arguments.output_format == "markdown" else page.as_text
        _write("\n\n".join(write_page(rule.meta, rule.page) for rule in rules))
    return OK


def _rules_about(text: str) -> list[Rule]:
    """The rules whose pages quote the most of a pasted error text."""
    from qlsp.report.page import match_length

    lengths = [(match_length(rule.page, text), rule) for rule in _rules()]
    best = max((length for length, _ in lengths), default=0)
    if not best:
        known = [word for rule in _rules() for word in (rule.meta.code, rule.meta.name)]
        what = "unknown rule" if re.fullmatch(r"[\w-]+", text) else "no rule quotes this error text:"
        raise UsageError(f"{what} {text}" + did_you_mean(text, known))
    return [rule for length, rule in lengths if length == best]


# server


def _server(arguments: argparse.Namespace) -> int:
    address = _address(arguments.tcp) if arguments.tcp is not None else None
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.path.abspath(sys.path[0]) == os.getcwd() != home:
        del sys.path[0]  # python -m puts the current folder first; what lies there must not be imported

    from qlsp.lsp.server import serve

    return serve(address)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--tcp {text}: expected HOST:PORT")
    return host.strip("[]"), int(port)


# output


def _write(text: str, path: str | None = None) -> None:
    """Print the report, or write it to a file. A reader that went away is no error."""
    if path is not None:
        try:
            with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                file.write(text)
        except OSError as error:
            raise UsageError(f"{path}: cannot write the report: {error.strerror}") from error
        return
    _tolerate_any_text(sys.stdout)
    with _reader_may_go():
        sys.stdout.write(text)
        sys.stdout.flush()


def _write_bytes(data: bytes) -> None:
    """Print the bytes of a file as they are: encoding, byte order mark and line breaks."""
    with _reader_may_go():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@contextmanager
def _reader_may_go() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise UsageError(f"cannot write the report: {error.strerror}") from error


def _complain(line: str) -> None:
    _complain_lines([f"qlsp: {line}"])


def _complain_lines(lines: Iterable[str]) -> None:
    _tolerate_any_text(sys.stderr)
    for line in lines:
        print(line, file=sys.stderr)


def _tolerate_any_text(stream: object) -> None:
    """Print what the terminal's encoding lacks as escapes, instead of failing."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
