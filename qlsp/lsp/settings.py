"""The editor's settings under ``qlsp``: the server's own, and every key of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from qlsp.config import KEYS, as_toml
from qlsp.lsp.exchange import Settings


def read(raw: object) -> Settings:
    """Settings of what a client sends; what it leaves out or sets to null is as by default."""
    if not isinstance(raw, Mapping):
        return Settings()
    configuration = raw.get("configuration")
    inline = configuration if isinstance(configuration, Mapping) else {}
    return Settings(
        enable=raw.get("enable") is not False,
        show_syntax_errors=raw.get("showSyntaxErrors") is True,
        configuration=configuration if isinstance(configuration, str) and configuration else None,
        values=(*_values(inline), *_values(raw)),
    )


def given(options: object) -> object:
    """The settings in initialization options or in a change of settings, whichever way they are wrapped."""
    if isinstance(options, Mapping):
        for name in ("settings", "qlsp"):
            if isinstance(options.get(name), Mapping):
                return options[name]
        return options or None
    return None


def client_commands(options: object) -> Sequence[str]:
    """The commands that the client has of its own, so that the server must not offer them."""
    names = options.get("clientCommands") if isinstance(options, Mapping) else None
    return [str(name) for name in names] if isinstance(names, (list, tuple)) else []


def _values(raw: Mapping[object, object]) -> Iterator[str]:
    for key in KEYS:
        value = raw.get(_camel(key), raw.get(key))
        if value is not None:
            yield f"{key} = {as_toml(value)}"


def _camel(key: str) -> str:
    first, *rest = key.split("-")
    return first + "".join(word.capitalize() for word in rest)
