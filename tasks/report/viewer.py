"""Read-only sample viewer for a browser on this machine.

A request names a row of the catalogue by number, never a file: no path in a request reaches the file system.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from tasks.report.catalogue import Catalogue
from tasks.report.page import read_asset, templates
from tasks.report.pictures import Sample, read_samples, thumbnail
from tasks.report.search import Finder, Query
from tasks.report.text import clean_text, format_picture_size

PAGE_SIZE = 60
_SIDE = 224
_LONGEST = 300
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def viewer(catalogue: Catalogue, title: str, version: str, allowed_hosts: Sequence[str]) -> Starlette:
    """Return the viewer as an ASGI application.

    ``version`` is part of the picture URLs that browsers cache; it changes when the catalogue may have changed.
    ``allowed_hosts``: accepted Host headers; another one is a website's attempt to reach this machine (DNS rebinding).
    """
    pages = _Pages(catalogue, Finder(catalogue), title, version)
    routes = [
        Route("/", pages.search),
        Route("/sample/{row:int}", pages.sample),
        Route("/thumb/{row:int}.jpg", pages.thumb),
        Route("/picture/{row:int}.jpg", pages.picture),
        Route("/style.css", _serve_file("text/css", "common.css", "browse.css")),
        Route("/browse.js", _serve_file("text/javascript", "browse.js")),
        Route("/favicon.ico", _serve_file("image/svg+xml", "icon.svg")),
    ]
    middleware = [
        Middleware(TrustedHostMiddleware, allowed_hosts=list(allowed_hosts), www_redirect=False),
        Middleware(BaseHTTPMiddleware, dispatch=_with_headers),
    ]
    return Starlette(routes=routes, middleware=middleware)


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers.update(_HEADERS)
    return response


def _serve_file(kind: str, *names: str) -> Callable[[Request], Response]:
    content = read_asset(*names)

    def respond(request: Request) -> Response:
        return Response(content, media_type=kind)

    return respond


def _jpeg_response(data: bytes | None) -> Response:
    """Return a response with the picture, or with a placeholder if there is none."""
    headers = {"Cache-Control": "private, max-age=3600"}
    if data is None:
        return Response(read_asset("no-picture.svg"), media_type="image/svg+xml", headers=headers)
    return Response(data, media_type="image/jpeg", headers=headers)


@dataclass(frozen=True)
class _Pages:
    catalogue: Catalogue
    finder: Finder
    title: str
    version: str

    def search(self, request: Request) -> Response:
        """Return a page of thumbnails."""
        try:
            query = Query.model_validate(dict(request.query_params))
        except ValidationError as error:
            problems = "; ".join(f"{fault['loc'][0]}: {fault['msg']}" for fault in error.errors())
            return PlainTextResponse(f"Invalid search: {problems}\n", status_code=400)
        rows = self.finder.find(query)
        pages = max(-(-len(rows) // PAGE_SIZE), 1)
        page = min(query.page, pages)
        shown = rows[(page - 1) * PAGE_SIZE : page * PAGE_SIZE].tolist()
        asked = query.model_dump(exclude={"page"}, exclude_defaults=True)
        links = {number: "?" + urlencode({**asked, "page": number}) for number in (page - 1, page + 1)}
        return self._render(
            "browse.html",
            query=query,
            found=len(rows),
            page=page,
            pages=pages,
            back=links[page - 1] if page > 1 else None,
            forth=links[page + 1] if page < pages else None,
            cards=[self._describe(sample) for sample in read_samples(self.catalogue, shown, ("txt",))],
            shards=self.finder.shards,
            reasons=self.finder.reasons,
            planned=self.catalogue.planned,
        )

    def sample(self, request: Request) -> Response:
        """Return the page of one sample with all its details."""
        sample = self._sample(request)
        record = {name: clean_text(str(value), 2000) for name, value in sample.record.items()}
        entry = self._describe(sample) | {"caption": clean_text(sample.caption, 20_000)}
        return self._render("sample.html", entry=entry, record=record, last=len(self.catalogue) - 1)

    def thumb(self, request: Request) -> Response:
        """Return a sample's thumbnail."""
        return _jpeg_response(thumbnail(self._sample(request, ("jpg",)).jpg, _SIDE))

    def picture(self, request: Request) -> Response:
        """Return a sample's picture as stored."""
        jpg = self._sample(request, ("jpg",)).jpg
        return _jpeg_response(jpg if thumbnail(jpg, 1) else None)

    def _sample(self, request: Request, members: tuple[str, ...] = ("jpg", "json", "txt")) -> Sample:
        row = int(request.path_params["row"])
        if not self.finder.may_show(row):
            raise HTTPException(404, "This sample does not exist or may not be shown.")
        return next(read_samples(self.catalogue, [row], members))

    def _describe(self, sample: Sample) -> dict[str, Any]:
        entry: dict[str, Any] = self.catalogue.table.slice(sample.row, 1).to_pylist()[0]
        return entry | {
            "row": sample.row,
            "shard": self.catalogue.tars[entry["shard"]].name,
            "caption": clean_text(sample.caption, _LONGEST),
            "size": format_picture_size(entry["width"], entry["height"], entry["jpg_size"]),
        }

    def _render(self, template: str, **values: Any) -> Response:
        html = templates().get_template(template).render(title=self.title, version=self.version, **values)
        return HTMLResponse(html.encode("utf-8", "replace"), headers={"Cache-Control": "no-store"})
