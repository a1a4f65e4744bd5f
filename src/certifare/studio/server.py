"""The server of the studio: what the page asks for, answered by its project, on this machine alone."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from certifare.errors import CertifareError, FileError
from certifare.report.html import style_sheet
from certifare.studio.guard import REPORT_POLICY, Guard
from certifare.studio.projects import Choice, ChosenRoles, Project

#: The one address that the studio listens on: no other machine reaches it.
HOST = "127.0.0.1"
MOST_JSON = 1 << 20
#: Most bytes of a table that is uploaded.
MOST_UPLOAD = 1 << 30
#: Seconds between two looks for news in a project.
PAUSE = 0.03
Number = Annotated[int, msgspec.Meta(ge=0)]


class Commission(Choice):
    """A certificate to issue; with ``again``, on records that were looked at before."""

    again: bool = False


class Explained(msgspec.Struct):
    """What to explain: an encoder that was tried, or the issued one; and a record."""

    number: Number | None = None
    record: Number = 1


class Studio:
    """All projects of a folder; new ones begin with the file. ``most``: bytes of an upload."""

    def __init__(self, folder: Path, file: Path | None = None, most: int = MOST_UPLOAD) -> None:
        self.folder, self.file, self.most = folder.resolve(), file, most
        self._projects: dict[str, Project] = {}

    def new(self, file: Path | None = None) -> Project:
        """Begin a project, with a file if there is one."""
        project = Project(self.folder / secrets.token_hex(8))
        self._projects[project.id] = project
        if file is not None:
            try:
                project.open(file, file.name)
            except CertifareError as error:
                project.tell(kind="failed", work=None, text=str(error))
        return project

    def project(self, name: str) -> Project:
        """Return a project; one of an earlier run is opened again."""
        if name not in self._projects:
            if not re.fullmatch(r"[0-9a-f]{16}", name) or not (self.folder / name / "project.json").is_file():
                raise HTTPException(404, "The studio does not know this project. Begin a new one at /.")
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

    def close(self) -> None:
        """Stop all work."""
        for project in self._projects.values():
            project.cancelled.set()


def _example(project: Project, _: None) -> None:
    with as_file(files("certifare.data") / "adult.parquet") as path:
        project.open(path, path.name)


def _file(project: Project, asked: dict[str, str]) -> Response:
    path = project.last_issued().file(asked["name"])
    if path.suffix == ".html":
        return FileResponse(path, headers={"Content-Security-Policy": REPORT_POLICY})
    return FileResponse(path, filename=asked["name"])


#: Method, path, what it takes, and what does it. Plain data is answered as JSON, text as a page in a frame; after what
#: returns nothing, the state is answered.
WORK: tuple[tuple[str, str, Any, Callable[[Project, Any], Any]], ...] = (
    ("GET", "state", None, lambda *_: None),
    ("POST", "example", None, _example),
    ("POST", "roles", ChosenRoles, Project.set_roles),
    ("POST", "explore", None, lambda project, _: project.begin("explore", project.explore)),
    ("POST", "cancel", None, lambda project, _: project.cancelled.set()),
    ("POST", "choice", Choice, Project.choose),
    ("GET", "understand", Explained, lambda project, asked: project.understand(asked.number)),
    ("GET", "explain", Explained, lambda project, asked: project.explain(asked.number, asked.record)),
    (
        "POST",
        "issue",
        Commission,
        lambda project, job: project.begin("issue", lambda: project.issue(job, again=job.again)),
    ),
    ("GET", "files/{name}", dict[str, str], _file),
    ("GET", "check", None, lambda project, _: project.last_issued().check()),
)


def _endpoint(taken: Any, work: Callable[[Project, Any], Any]) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers a request by work in a thread, which is handed a small JSON object, or the parameters."""

    async def endpoint(request: Request) -> Response:
        studio: Studio = request.app.state.studio
        project = studio.project(request.path_params["project"])
        asked = None
        if request.method == "POST":
            content = b"".join([chunk async for chunk in _limited(request, MOST_JSON)])
            asked = taken and msgspec.json.decode(content, type=taken)
        elif taken:
            asked = msgspec.convert({**request.query_params, **request.path_params}, taken, strict=False)
        found = await run_in_threadpool(work, project, asked)
        if isinstance(found, Response):
            return found
        if isinstance(found, str):
            return HTMLResponse(found, headers={"Content-Security-Policy": REPORT_POLICY})
        return JSONResponse(await run_in_threadpool(studio.state, project) if found is None else found)

    return endpoint


async def _limited(request: Request, most: int) -> AsyncIterator[bytes]:
    """Yield what is sent; refuse more than so many bytes, if possible before they are sent."""
    too_large = HTTPException(
        413,
        f"The file is larger than {most / (1 << 20):,.0f} MB: start certifare studio with it, or use certifare fit.",
    )
    stated, received = request.headers.get("content-length", ""), 0
    if stated.isdigit() and int(stated) > most:
        raise too_large
    async for chunk in request.stream():
        received += len(chunk)
        if received > most:
            raise too_large
        yield chunk


async def _home(request: Request) -> Response:
    """Begin a project; at the first address, with the file of the command line."""
    studio: Studio = request.app.state.studio
    project = await run_in_threadpool(studio.new, studio.file if request.url.path == "/" else None)
    return RedirectResponse(f"/projects/{project.id}", 303)


async def _page(request: Request) -> Response:
    request.app.state.studio.project(request.path_params["project"])
    return HTMLResponse(files("certifare.studio").joinpath("static", "studio.html").read_text("utf-8"))


async def _style(_: Request) -> Response:
    return Response(style_sheet(), media_type="text/css")


@asynccontextmanager
async def _stored(request: Request) -> AsyncIterator[tuple[Project, Path, str]]:
    """Within this, an uploaded table lies in its project's folder under a name of our own; errors use its user's."""
    studio: Studio = request.app.state.studio
    project = studio.project(request.path_params["project"])
    name = request.query_params.get("name", "").replace("\\", "/").rpartition("/")[2][:200]
    project.folder.mkdir(parents=True, exist_ok=True)
    path = project.folder / f"upload-{secrets.token_hex(4)}"
    try:
        with path.open("wb") as file:
            async for chunk in _limited(request, studio.most):
                await run_in_threadpool(file.write, chunk)
        yield project, path, name
    except ClientDisconnect as error:
        raise FileError("The upload was interrupted.") from error
    except CertifareError as error:
        raise type(error)(str(error).replace(str(path), name)) from error
    finally:
        path.unlink(missing_ok=True)


async def _upload(request: Request) -> Response:
    async with _stored(request) as (project, path, name):
        await run_in_threadpool(project.open, path, name)
        return JSONResponse(await run_in_threadpool(request.app.state.studio.state, project))


async def _fresh(request: Request) -> Response:
    """Verify the certificate on fresh records, or add them to its history as a period."""
    async with _stored(request) as (project, path, name):
        issued, period = project.last_issued(), request.query_params.get("period")
        if period is None:
            return JSONResponse(await run_in_threadpool(issued.check, path))
        await run_in_threadpool(issued.add_period, path, period.strip()[:60] or Path(name).stem)
        return JSONResponse({})


async def _events(request: Request) -> Response:
    """Stream what happens in a project, from the beginning: after a reload the page is told again."""
    project = request.app.state.studio.project(request.path_params["project"])

    async def stream() -> AsyncIterator[str]:
        sent, events = 0, project.events
        while not await request.is_disconnected():
            if project.events is not events:  # a new search has begun
                sent, events = 0, project.events
            if fresh := events[sent:]:
                sent += len(fresh)
                yield "".join(f"data: {json.dumps(event)}\n\n" for event in fresh)
            await asyncio.sleep(PAUSE)

    return StreamingResponse(stream(), media_type="text/event-stream")


async def _failed(_: Request, error: Exception) -> Response:
    status, text = 500, f"A mistake in certifare itself: {type(error).__name__}: {error}"
    if isinstance(error, HTTPException):
        status, text = error.status_code, error.detail
    elif isinstance(error, CertifareError | msgspec.MsgspecError):
        status, text = 400, str(error)
    return JSONResponse({"error": text[:2000]}, status)


def make_app(studio: Studio, token: str, port: int) -> Starlette:
    """Return the application, which answers those who know the token, at this port of this machine."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        studio.close()

    own = "/projects/{project}"
    app = Starlette(
        routes=[
            Route("/", _home),
            Route("/new", _home),
            Route("/static/report.css", _style),
            Mount("/static", StaticFiles(packages=[("certifare.studio", "static")])),
            Route(own, _page),
            Route(f"{own}/events", _events),
            Route(f"{own}/table", _upload, methods=["PUT"]),
            Route(f"{own}/fresh", _fresh, methods=["PUT"]),
            *(Route(f"{own}/{path}", _endpoint(taken, work), methods=[method]) for method, path, taken, work in WORK),
        ],
        middleware=[Middleware(Guard, token=token, port=port)],
        exception_handlers=dict.fromkeys((CertifareError, msgspec.MsgspecError, HTTPException, Exception), _failed),
        lifespan=lifespan,
    )
    app.state.studio = studio
    return app


def serve(studio: Studio, *, show: Callable[[str], None]) -> None:
    """Serve the studio on a free port until the process is interrupted; show the address with its token."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, 0))
        found, token = listening.getsockname()[1], secrets.token_urlsafe(32)
        # Requests are not logged: addresses hold the token, and names of files.
        app = make_app(studio, token, found)
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
        listening.listen()
        show(f"http://{HOST}:{found}/?token={token}")
        uvicorn.Server(config).run(sockets=[listening])
