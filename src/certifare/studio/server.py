"""The server of the studio: what the page asks for, answered by its project, on this machine alone."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from certifare.document.keys import new_key
from certifare.errors import ArgumentError, CertifareError, FileError
from certifare.report.html import style_sheet
from certifare.studio.guard import REPORT_POLICY, Guard
from certifare.studio.projects import Project

#: The one address that the studio listens on: no other machine reaches it.
HOST = "127.0.0.1"
#: Files of the page, by name; no other file is served from the package.
STATIC = {"studio.js": "text/javascript", "studio.css": "text/css"}
#: Endings of tables; what a file is called besides does not matter, since it is stored under a name of our own.
ENDINGS = (".csv", ".tsv", ".txt", ".gz", ".zst", ".parquet", ".arrow", ".feather")
MOST_JSON = 1 << 20
#: Most bytes of a table that is uploaded.
MOST_UPLOAD = 1 << 30
#: Seconds between two looks for news in a project.
PAUSE = 0.03
LOST = "The studio does not know this project: it was made by another run, in another folder. Begin a new one at /."
Asked = dict[str, Any]
Endpoint = Callable[[Request], Awaitable[Response]]


class Studio:
    """All projects of a folder, with the signing key; new ones begin with the file. ``most``: bytes of an upload."""

    def __init__(self, folder: Path, file: Path | None = None, most: int = MOST_UPLOAD) -> None:
        self.folder, self.file, self.most = folder.resolve(), file, most
        self._projects: dict[str, Project] = {}
        self._workers = ThreadPoolExecutor(2, "studio")

    def new(self, file: Path | None = None) -> Project:
        """Begin a project, with a file if there is one."""
        project = Project(self.folder / secrets.token_hex(8))
        self._projects[project.id] = project
        if file is not None:
            try:
                project.open(file, file.name)
            except CertifareError as error:
                project.fail(error)
        return project

    def project(self, name: str) -> Project:
        """Return a project; one of an earlier run is opened again."""
        if name not in self._projects:
            if not re.fullmatch(r"[0-9a-f]{16}", name) or not (self.folder / name / "project.json").is_file():
                raise HTTPException(404, LOST)
            self._projects[name] = Project.load(self.folder / name)
        return self._projects[name]

    def state(self, project: Project) -> dict[str, Any]:
        """Return the state of a project, with the others of this folder that hold a table, the last first."""
        found = sorted(self.folder.glob("*/project.json"), key=lambda path: -path.stat().st_mtime)[:20]
        earlier = []
        for path in found:
            with suppress(FileError):
                earlier.append(Project.load(path.parent).summary())
        return {**project.state(), "earlier": earlier}

    def start(self, project: Project, name: str, work: Callable[[], None]) -> dict[str, str]:
        """Let a worker do what takes long."""
        project.begin(name, self._workers.submit, work)
        return {"running": name}

    def key(self, *, public: bool) -> Path:
        """Return a half of the signing key, which is made once for all projects of the folder."""
        name = self.folder / "producer"
        private, other = name.with_suffix(".pem"), self.folder / "producer.pub.pem"
        if not private.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            new_key(name)
        return other if public else private

    def close(self) -> None:
        """Stop all work."""
        for project in self._projects.values():
            project.cancel()
        self._workers.shutdown(wait=True, cancel_futures=True)


# -- what the page asks for -----------------------------------------------------------------------------------------


def _example(_: Studio, project: Project, __: Asked) -> None:
    with as_file(files("certifare.data") / "adult.parquet") as path:
        project.open(path, path.name)


def _issue(studio: Studio, project: Project, asked: Asked) -> Asked:
    target, family = _choice(asked)
    key = studio.key(public=False) if asked.get("sign") is True else None
    again = asked.get("again") is True
    return studio.start(project, "issue", lambda: project.issue(target, family, key, again=again))


def _explain(_: Studio, project: Project, asked: Asked) -> Asked:
    number = None if asked.get("number") == "issued" else _number(asked, "number")
    return project.explain(number, _number(asked, "record"))


def _file(studio: Studio, project: Project, asked: Asked) -> Response:
    name, issued = str(asked["name"]), project.last_issued()
    if name == "bundle.zip":
        headers = {"Content-Disposition": 'attachment; filename="bundle.zip"'}
        return Response(issued.publish(studio.key(public=True)), media_type="application/zip", headers=headers)
    if name == "report.html":
        return FileResponse(issued.file(name), headers={"Content-Security-Policy": REPORT_POLICY})
    return FileResponse(issued.file(name), filename=name)


#: Plain data is answered as JSON, text as a page in a frame; after what returns nothing, the state is answered.
WORK: tuple[tuple[str, str, Callable[[Studio, Project, Asked], Any]], ...] = (
    ("GET", "state", lambda studio, project, _: studio.state(project)),
    ("POST", "example", _example),
    ("POST", "roles", lambda _, project, asked: project.set_roles(asked)),
    ("POST", "explore", lambda studio, project, _: studio.start(project, "explore", project.explore)),
    ("POST", "cancel", lambda _, project, __: project.cancel()),
    ("POST", "choice", lambda _, project, asked: project.choose(*_choice(asked))),
    ("GET", "understand", lambda _, project, asked: project.understand(_number(asked, "number"))),
    ("GET", "explain", _explain),
    ("POST", "issue", _issue),
    ("GET", "files/{name}", _file),
    ("GET", "check", lambda studio, project, _: project.last_issued().check(studio.key(public=True))),
    ("GET", "history", lambda _, project, __: project.last_issued().history()),
)


def _endpoint(work: Callable[[Studio, Project, Asked], Any]) -> Endpoint:
    """Return what answers a request by work in a thread; small JSON objects and parameters are handed to it."""

    async def endpoint(request: Request) -> Response:
        studio: Studio = request.app.state.studio
        project = studio.project(request.path_params["project"])
        asked = await _body(request) if request.method == "POST" else {**request.query_params, **request.path_params}
        found = await run_in_threadpool(work, studio, project, asked)
        if isinstance(found, Response):
            return found
        if isinstance(found, str):
            return HTMLResponse(found, headers={"Content-Security-Policy": REPORT_POLICY})
        return JSONResponse(await run_in_threadpool(studio.state, project) if found is None else found)

    return endpoint


async def _body(request: Request) -> Asked:
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > MOST_JSON:
            raise HTTPException(413, "The request is too large.")
    try:
        found = json.loads(content or b"{}")
    except ValueError as error:
        raise ArgumentError("The request is no JSON.") from error
    if not isinstance(found, dict):
        raise ArgumentError("The request is no JSON object.")
    return found


def _choice(asked: Asked) -> tuple[float, str]:
    target = asked.get("target")
    if isinstance(target, bool) or not isinstance(target, int | float):
        raise ArgumentError("The target is no number.")
    return float(target), str(asked.get("family"))


def _number(asked: Asked, name: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text := str(asked.get(name, ""))):
        raise ArgumentError(f"{name}: give a whole number.")
    return int(text)


# -- what is not a request of the page for work ---------------------------------------------------------------------


async def _home(request: Request) -> Response:
    """Begin a project; at the first address, with the file of the command line."""
    studio: Studio = request.app.state.studio
    project = await run_in_threadpool(studio.new, studio.file if request.url.path == "/" else None)
    return RedirectResponse(f"/projects/{project.id}", 303)


async def _page(request: Request) -> Response:
    request.app.state.studio.project(request.path_params["project"])
    return HTMLResponse(_packaged("studio.html"))


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "report.css":
        return Response(style_sheet(), media_type="text/css")
    if name not in STATIC:
        raise HTTPException(404, "There is no such file.")
    return Response(_packaged(name), media_type=STATIC[name])


def _packaged(name: str) -> str:
    return files("certifare.studio").joinpath("static", name).read_text("utf-8")


@asynccontextmanager
async def _stored(request: Request) -> AsyncIterator[tuple[Project, Path, str]]:
    """Within this, an uploaded table lies in its project's folder under a name of our own; errors use its user's."""
    studio: Studio = request.app.state.studio
    project = studio.project(request.path_params["project"])
    name = request.query_params.get("name", "").replace("\\", "/").rpartition("/")[2][:200]
    if Path(name).suffix.lower() not in ENDINGS:
        raise ArgumentError(f"{name!r}: choose a table that is a CSV, Parquet, Arrow or Feather file.")
    too_large = HTTPException(
        413,
        f"The file is larger than {studio.most / (1 << 20):,.0f} MB, the most that the studio takes. "
        "Name it on the command line instead (certifare studio FILE), or use certifare fit.",
    )
    stated, written = request.headers.get("content-length", ""), 0
    if stated.isdigit() and int(stated) > studio.most:
        raise too_large
    project.folder.mkdir(parents=True, exist_ok=True)
    path = project.folder / f"table-{secrets.token_hex(4)}{Path(name).suffix.lower()}"
    try:
        with path.open("wb") as file:
            async for chunk in request.stream():
                written += len(chunk)
                if written > studio.most:
                    raise too_large
                await run_in_threadpool(file.write, chunk)
        yield project, path, name
    except ClientDisconnect as error:
        raise FileError("The upload was interrupted.") from error
    except CertifareError as error:
        raise type(error)(str(error).replace(str(path), name)) from error
    finally:
        if not project.holds(path):
            path.unlink(missing_ok=True)


async def _upload(request: Request) -> Response:
    async with _stored(request) as (project, path, name):
        await run_in_threadpool(project.open, path, name)
        return JSONResponse(await run_in_threadpool(request.app.state.studio.state, project))


async def _fresh(request: Request) -> Response:
    """Verify the certificate on fresh records, or add them to its history as a period."""
    async with _stored(request) as (project, path, name):
        if "period" in request.query_params:
            period = request.query_params["period"].strip()[:60] or Path(name).stem
            await run_in_threadpool(project.last_issued().add_period, path, period)
            return JSONResponse({})
        key = request.app.state.studio.key(public=True)
        return JSONResponse(await run_in_threadpool(project.last_issued().check, key, path))


async def _events(request: Request) -> Response:
    """Stream what happens in a project, from the beginning: after a reload the page is told again."""
    project = request.app.state.studio.project(request.path_params["project"])

    async def stream() -> AsyncIterator[str]:
        sent, silent, events = 0, 0.0, project.events
        while not await request.is_disconnected():
            if project.events is not events:  # a new search has begun
                sent, events = 0, project.events
            fresh = events[sent:]
            if fresh:
                sent, silent = sent + len(fresh), 0.0
                yield "".join(f"data: {json.dumps(event)}\n\n" for event in fresh)
            elif (silent := silent + PAUSE) > 15.0:
                silent = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(PAUSE)

    return StreamingResponse(stream(), media_type="text/event-stream")


async def _failed(_: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code)
    if isinstance(error, CertifareError):
        return JSONResponse({"error": str(error)[:2000]}, 400)
    return JSONResponse({"error": f"A mistake in certifare itself: {type(error).__name__}: {error}"[:2000]}, 500)


def make_app(studio: Studio, token: str, port: int) -> Starlette:
    """Return the application, which answers those who know the token, at this port of this machine."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(studio.close)

    own = "/projects/{project}"
    app = Starlette(
        routes=[
            Route("/", _home),
            Route("/new", _home),
            Route("/static/{name}", _static),
            Route(own, _page),
            Route(f"{own}/events", _events),
            Route(f"{own}/table", _upload, methods=["PUT"]),
            Route(f"{own}/fresh", _fresh, methods=["PUT"]),
            *(Route(f"{own}/{path}", _endpoint(work), methods=[method]) for method, path, work in WORK),
        ],
        middleware=[Middleware(Guard, token=token, port=port)],
        exception_handlers=dict.fromkeys((CertifareError, HTTPException, Exception), _failed),
        lifespan=lifespan,
    )
    app.state.studio = studio
    return app


def serve(studio: Studio, *, port: int = 0, show: Callable[[str], None]) -> None:
    """Serve the studio until the process is interrupted, on a port (0: a free one); show the address with its token."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
        except OSError as error:
            raise ArgumentError(f"Port {port} cannot be used: {error.strerror}. Name another with --port.") from error
        found, token = listening.getsockname()[1], secrets.token_urlsafe(32)
        # Requests are not logged: addresses hold the token, and names of files.
        app = make_app(studio, token, found)
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
        listening.listen()
        show(f"http://{HOST}:{found}/?token={token}")
        uvicorn.Server(config).run(sockets=[listening])
