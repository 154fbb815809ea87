"""Import bindings and dotted names."""

from __future__ import annotations

import libcst as cst
import pytest

from qlsp.syntax.names import Binding, bindings, dotted


def bound(text: str, module: str = "pkg.sub.mod", is_package: bool = False) -> dict[str, str]:
    node = cst.parse_module(text).body[0]
    found = bindings(node, module, is_package)
    assert all(isinstance(binding, Binding) for binding in found)
    assert len({binding.name for binding in found if binding.name != "*"}) == sum(
        b.name != "*" for b in found
    )
    return {binding.name: binding.target for binding in found}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a", {"a": "a"}),
        ("import a.b.c", {"a": "a"}),
        ("import a.b as c", {"c": "a.b"}),
        ("import a as b, c.d, e . f as g", {"b": "a", "c": "c", "g": "e.f"}),
        ("from a import b", {"b": "a.b"}),
        ("from a.b import c as d, e", {"d": "a.b.c", "e": "a.b.e"}),
        ("from a import (\n    b,  # one\n    c as d,\n)", {"b": "a.b", "d": "a.c"}),
        ("from a.b import *", {"*": "a.b"}),
        ("import a; from b import c", {"a": "a", "c": "b.c"}),
        ("import a as x; import b as x", {"x": "b"}),
        ("x = 1", {}),
        ("def f():\n    import a\n", {}),
        ("class A:\n    import a\n", {}),
    ],
)
def test_imports(text: str, expected: dict[str, str]) -> None:
    assert bound(text) == expected


@pytest.mark.parametrize(
    ("text", "module", "is_package", "expected"),
    [
        ("from . import a", "pkg.sub.mod", False, {"a": "pkg.sub.a"}),
        ("from .a import b", "pkg.sub.mod", False, {"b": "pkg.sub.a.b"}),
        ("from .. import a", "pkg.sub.mod", False, {"a": "pkg.a"}),
        ("from ...a import b", "pkg.sub.mod", False, {}),
        ("from . import a", "pkg.sub", True, {"a": "pkg.sub.a"}),
        ("from .a import *", "pkg.sub", True, {"*": "pkg.sub.a"}),
        ("from ..a.b import c as d", "pkg.sub", True, {"d": "pkg.a.b.c"}),
        ("from . import a", "script", False, {"a": "a"}),
        ("from .a import b", "script", False, {"b": "a.b"}),
        ("from .. import a", "script", False, {}),
        ("from .... import a", "pkg.sub.mod", False, {}),
    ],
)
def test_relative_imports(text: str, module: str, is_package: bool, expected: dict[str, str]) -> None:
    assert bound(text, module, is_package) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("try:\n    from a import q\nexcept E:\n    from b import q, r\n", {"q": "a.q", "r": "b.r"}),
        ("try:\n    import a as q\nexcept A:\n    import b as q\nexcept B:\n    import c as q\n", {"q": "a"}),
        ("try:\n    pass\nexcept A:\n    import b as q\nexcept B:\n    import c as q\n", {"q": "b"}),
        ("try:\n    import a\nexcept A:\n    a = None\nelse:\n    import b\nfinally:\n    import c\n",
         {"a": "a", "b": "b", "c": "c"}),
        ("try:\n    import a as q\nfinally:\n    import c as q\n", {"q": "c"}),
        ("try:\n    import a\nexcept* A:\n    import b\n", {"a": "a", "b": "b"}),
        ("if x:\n    from a import q\nelif y:\n    from b import q, r\nelse:\n    from c import q, r, s\n",
         {"q": "a.q", "r": "b.r", "s": "c.s"}),
        ("if x:\n    import a as q\n    import b as q\n", {"q": "b"}),
        ("if x: import a\nelse: import b as a\n", {"a": "a"}),
        ("if x:\n    try:\n        from a import q\n    except E:\n        from b import q\nelse: import q\n",
         {"q": "a.q"}),
        ("with x:\n    import a\n", {"a": "a"}),
        ("for x in y:\n    import a\nelse:\n    import b\n", {"a": "a", "b": "b"}),
        ("while x:\n    import a\n", {"a": "a"}),
        ("match x:\n    case 1:\n        import a as q\n    case _:\n        import b as q\n", {"q": "a"}),
        ("if x:\n    def f():\n        import a\n    class A:\n        import b\n    import c\n", {"c": "c"}),
    ],
)  # fmt: skip
def test_blocks(text: str, expected: dict[str, str]) -> None:
    assert bound(text) == expected


def test_two_star_imports_are_two_bindings() -> None:
    node = cst.parse_module("from a import *; from b import *").body[0]
    assert bindings(node, "m", False) == [Binding("*", "a"), Binding("*", "b")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "a"),
        ("a.b.c", "a.b.c"),
        ("a . b", "a.b"),
        ("(a.b).c", "a.b.c"),
        ("a().b", None),
        ("a[0].b", None),
        ("1", None),
        ("'a'.b", None),
    ],
)
def test_dotted(text: str, expected: str | None) -> None:
    assert dotted(cst.parse_expression(text)) == expected
