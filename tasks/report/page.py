"""HTML pages from templates: all data is escaped, and a content security policy blocks everything from other sites."""

import base64
import hashlib
from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


@lru_cache(maxsize=1)
def templates() -> Environment:
    """Return the templates of the ``pages`` folder; every value is escaped unless it is Markup."""
    return Environment(
        loader=PackageLoader("tasks.report", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def read_asset(*names: str) -> str:
    """Read files of the ``pages`` folder and join them."""
    return "".join((files("tasks.report") / "pages" / name).read_text(encoding="utf-8") for name in names)


def render_page(template: str, styles: tuple[str, ...], script: str, **values: Any) -> bytes:
    """Render a page that embeds its style and script; its policy allows only these and data URIs."""
    style, code = read_asset(*styles), read_asset(script)
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(code)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    html = (
        templates()
        .get_template(template)
        .render(policy=Markup(policy), style=Markup(style), script=Markup(code), **values)
    )
    # Text from the web can hold lone surrogates, which UTF-8 cannot encode.
    return html.encode("utf-8", "replace")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
