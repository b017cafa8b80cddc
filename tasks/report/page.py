"""HTML from templates: all that comes from data is escaped, and a policy lets nothing be loaded from elsewhere."""

import base64
import hashlib
from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


@lru_cache(maxsize=1)
def templates() -> Environment:
    """The templates of this room; every value is escaped unless it is Markup."""
    return Environment(
        loader=PackageLoader("tasks.report", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def asset(*names: str) -> str:
    """Files of the ``pages`` folder, joined."""
    return "".join((files("tasks.report") / "pages" / name).read_text(encoding="utf-8") for name in names)


def self_contained(template: str, styles: tuple[str, ...], script: str, **values: Any) -> bytes:
    """A page with its style and script in it; its policy allows these two by hash, and pictures in the page itself."""
    style, code = asset(*styles), asset(script)
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(code)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    html = (
        templates()
        .get_template(template)
        .render(policy=Markup(policy), style=Markup(style), script=Markup(code), **values)
    )
    # Texts of the web can hold lone surrogates, which no encoding has.
    return html.encode("utf-8", "replace")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
