"""A read-only viewer of samples for a browser on this machine.

A request names rows of the catalogue by number, never a file: no path of a request reaches the file system.
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
from tasks.report.page import asset, templates
from tasks.report.pictures import Sample, read_samples, thumbnail
from tasks.report.search import Finder, Query
from tasks.report.text import readable, size_of

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
    """The viewer as an application.

    ``version`` changes whenever the catalogue may: pictures are kept by the browser under it. ``allowed_hosts``: names
    that a request may address; any other is a foreign site's attempt to reach this machine (DNS rebinding).
    """
    pages = _Pages(catalogue, Finder(catalogue), title, version)
    routes = [
        Route("/", pages.search),
        Route("/sample/{row:int}", pages.sample),
        Route("/thumb/{row:int}.jpg", pages.thumb),
        Route("/picture/{row:int}.jpg", pages.picture),
        Route("/style.css", _file("text/css", "common.css", "browse.css")),
        Route("/browse.js", _file("text/javascript", "browse.js")),
        Route("/favicon.ico", _file("image/svg+xml", "icon.svg")),
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


def _file(kind: str, *names: str) -> Callable[[Request], Response]:
    content = asset(*names)

    def answer(request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


def _jpeg(data: bytes | None) -> Response:
    """The picture, or one that says that there is none."""
    headers = {"Cache-Control": "private, max-age=3600"}
    if data is None:
        return Response(asset("no-picture.svg"), media_type="image/svg+xml", headers=headers)
    return Response(data, media_type="image/jpeg", headers=headers)


@dataclass(frozen=True)
class _Pages:
    catalogue: Catalogue
    finder: Finder
    title: str
    version: str

    def search(self, request: Request) -> Response:
        """A page of thumbnails."""
        try:
            query = Query.model_validate(dict(request.query_params))
        except ValidationError as error:
            faults = "; ".join(f"{fault['loc'][0]}: {fault['msg']}" for fault in error.errors())
            return PlainTextResponse(f"This search cannot be understood: {faults}\n", status_code=400)
        rows = self.finder.find(query)
        pages = max(-(-len(rows) // PAGE_SIZE), 1)
        page = min(query.page, pages)
        shown = rows[(page - 1) * PAGE_SIZE : page * PAGE_SIZE].tolist()
        asked = query.model_dump(exclude={"page"}, exclude_defaults=True)
        links = {number: "?" + urlencode({**asked, "page": number}) for number in (page - 1, page + 1)}
        return self._html(
            "browse.html",
            query=query,
            found=len(rows),
            page=page,
            pages=pages,
            back=links[page - 1] if page > 1 else None,
            forth=links[page + 1] if page < pages else None,
            cards=[self._entry(sample) for sample in read_samples(self.catalogue, shown, ("txt",))],
            shards=self.finder.shards,
            reasons=self.finder.reasons,
            planned=self.catalogue.planned,
        )

    def sample(self, request: Request) -> Response:
        """One sample with all that is known of it."""
        sample = self._sample(request)
        record = {name: readable(str(value), 2000) for name, value in sample.record.items()}
        entry = self._entry(sample) | {"caption": readable(sample.caption, 20_000)}
        return self._html("sample.html", entry=entry, record=record, last=len(self.catalogue) - 1)

    def thumb(self, request: Request) -> Response:
        """A sample's picture, small."""
        return _jpeg(thumbnail(self._sample(request, ("jpg",)).jpg, _SIDE))

    def picture(self, request: Request) -> Response:
        """A sample's picture as it is stored."""
        jpg = self._sample(request, ("jpg",)).jpg
        return _jpeg(jpg if thumbnail(jpg, 1) else None)

    def _sample(self, request: Request, members: tuple[str, ...] = ("jpg", "json", "txt")) -> Sample:
        row = int(request.path_params["row"])
        if not self.finder.may_show(row):
            raise HTTPException(404, "There is no such sample.")
        return next(read_samples(self.catalogue, [row], members))

    def _entry(self, sample: Sample) -> dict[str, Any]:
        entry: dict[str, Any] = self.catalogue.table.slice(sample.row, 1).to_pylist()[0]
        return entry | {
            "row": sample.row,
            "shard": self.catalogue.tars[entry["shard"]].name,
            "caption": readable(sample.caption, _LONGEST),
            "size": size_of(entry["width"], entry["height"], entry["jpg_size"]),
        }

    def _html(self, template: str, **values: Any) -> Response:
        html = templates().get_template(template).render(title=self.title, version=self.version, **values)
        return HTMLResponse(html.encode("utf-8", "replace"), headers={"Cache-Control": "no-store"})
