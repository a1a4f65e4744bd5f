"""The server of the studio: what the page asks for, answered by its project."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

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


class Studio:
    """All projects below one folder.

    Parameters
    ----------
    folder : path
        Projects, tables that were uploaded, certificates and the signing key are kept here.
    file : path, optional
        The table that new projects begin with.
    most : int
        Most bytes of an upload.
    """

    def __init__(self, folder: Path, file: Path | None = None, most: int = MOST_UPLOAD) -> None:
        self.folder, self.file, self.most = folder.resolve(), file, most
        self._projects: dict[str, Project] = {}
        self._workers = ThreadPoolExecutor(2, "studio")

    def new(self) -> Project:
        """Begin a project."""
        project = Project(self.folder / secrets.token_hex(8))
        self._projects[project.id] = project
        if self.file is not None:
            project.open(self.file.resolve(), self.file.name)
        return project

    def project(self, name: str) -> Project:
        """Return a project; one of an earlier run is opened again."""
        if name not in self._projects:
            if not re.fullmatch(r"[0-9a-f]{16}", name) or not (self.folder / name / "project.json").is_file():
                raise HTTPException(404, LOST)
            self._projects[name] = Project.load(self.folder / name)
        return self._projects[name]

    def earlier(self) -> list[dict[str, Any]]:
        """Return the projects of this folder that hold a table, the last first."""
        found = sorted(self.folder.glob("*/project.json"), key=lambda path: -path.stat().st_mtime)[:20]
        listed = []
        for path in found:
            try:
                kept = json.loads(path.read_text("utf-8"))
                listed.append({"id": path.parent.name, "name": kept["name"], "issued": len(kept["issued"])})
            except (OSError, ValueError, KeyError):
                continue
        return listed

    def start(self, project: Project, name: str, work: Callable[[], None]) -> None:
        """Let a worker do what takes long."""
        project.begin(name)
        self._workers.submit(project.run, work)

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

    async def store(self, request: Request, place: Path) -> tuple[Path, str]:
        """Write the body of a request to a file, whose name has the ending of the uploaded one; return that, too."""
        name = request.query_params.get("name", "table.csv").replace("\\", "/").rpartition("/")[2][:200]
        ending = Path(name).suffix.lower()
        if ending not in ENDINGS:
            raise ArgumentError(f"{name!r}: choose a table that is a CSV, Parquet, Arrow or Feather file.")
        stated = request.headers.get("content-length", "")
        if stated.isdigit() and int(stated) > self.most:
            raise HTTPException(413, self._too_large())
        place.parent.mkdir(parents=True, exist_ok=True)
        target, written = place.with_suffix(ending), 0
        partial = place.with_suffix(".part")
        try:
            with partial.open("wb") as file:
                async for chunk in request.stream():
                    written += len(chunk)
                    if written > self.most:
                        raise HTTPException(413, self._too_large())
                    await run_in_threadpool(file.write, chunk)
            partial.replace(target)
        except ClientDisconnect as error:
            raise FileError("The upload was interrupted.") from error
        finally:
            partial.unlink(missing_ok=True)
        return target, name

    def _too_large(self) -> str:
        return (
            f"The file is larger than {self.most / (1 << 20):,.0f} MB, the most that the studio takes. "
            "Name it on the command line instead (certifare studio FILE), or use certifare fit."
        )


# -- requests -------------------------------------------------------------------------------------------------------


def _studio(request: Request) -> Studio:
    found: Studio = request.app.state.studio
    return found


def _project(request: Request) -> Project:
    return _studio(request).project(request.path_params["project"])


async def _body(request: Request) -> dict[str, Any]:
    """Read a small JSON object."""
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > MOST_JSON:
            raise HTTPException(413, "The request is too large.")
    try:
        found = json.loads(content)
    except ValueError as error:
        raise ArgumentError("The request is no JSON.") from error
    if not isinstance(found, dict):
        raise ArgumentError("The request is no JSON object.")
    return found


def _choice(body: dict[str, Any]) -> tuple[float, str]:
    target = body.get("target")
    if isinstance(target, bool) or not isinstance(target, int | float):
        raise ArgumentError("The target is no number.")
    return float(target), str(body.get("family"))


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ArgumentError(f"{name}: give a whole number.")
    return int(text)


async def _home(request: Request) -> Response:
    project = await run_in_threadpool(_studio(request).new)
    return RedirectResponse(f"/projects/{project.id}", 303)


async def _page(request: Request) -> Response:
    _project(request)
    return HTMLResponse(_packaged("studio.html"))


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "report.css":
        return Response(style_sheet(), media_type="text/css")
    if name not in STATIC:
        raise HTTPException(404, "There is no such file.")
    return Response(_packaged(name), media_type=STATIC[name])


async def _state(request: Request) -> Response:
    project = _project(request)
    state = await run_in_threadpool(project.state)
    return JSONResponse({**state, "earlier": _studio(request).earlier()})


async def _upload(request: Request) -> Response:
    studio, project = _studio(request), _project(request)
    path, name = await studio.store(request, project.folder / f"table-{secrets.token_hex(4)}")
    try:
        with _called(path, name):
            await run_in_threadpool(project.open, path, name)
    except CertifareError:
        path.unlink()  # the table that was open before stays
        raise
    for other in project.folder.glob("table-*"):
        if other != path:
            other.unlink()
    return await _state(request)


@contextmanager
def _called(path: Path, name: str) -> Iterator[None]:
    """Within this, errors call an uploaded file by the name that its user knows."""
    try:
        yield
    except CertifareError as error:
        raise type(error)(str(error).replace(str(path), name)) from error


async def _example(request: Request) -> Response:
    project = _project(request)
    with as_file(files("certifare.data") / "adult.parquet") as path:
        await run_in_threadpool(project.open, path, "adult.parquet")
    return await _state(request)


async def _roles(request: Request) -> Response:
    body = await _body(request)
    if not all(isinstance(body.get(role, []), list) for role in ("label", "sensitive", "drop")):
        raise ArgumentError("Roles are lists of columns.")
    await run_in_threadpool(_project(request).set_roles, body)
    return await _state(request)


async def _plan(request: Request) -> Response:
    return JSONResponse(await run_in_threadpool(_project(request).plan))


async def _explore(request: Request) -> Response:
    project = _project(request)
    _studio(request).start(project, "explore", project.explore)
    return JSONResponse({"running": "explore"})


async def _cancel(request: Request) -> Response:
    _project(request).cancel()
    return JSONResponse({})


async def _choose(request: Request) -> Response:
    project = _project(request)
    project.choose(*_choice(await _body(request)))
    return JSONResponse({"command": project.command(**project.state()["choice"])})


async def _events(request: Request) -> Response:
    """Stream what happens in a project, from the beginning: after a reload the page is told again."""
    project = _project(request)

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


async def _understand(request: Request) -> Response:
    page = await run_in_threadpool(_project(request).understand, _number(request, "number"))
    return HTMLResponse(page, headers={"Content-Security-Policy": REPORT_POLICY})


async def _explain(request: Request) -> Response:
    number = None if request.query_params.get("number") == "issued" else _number(request, "number")
    found = await run_in_threadpool(_project(request).explain, number, _number(request, "record"))
    return JSONResponse(found)


async def _issue(request: Request) -> Response:
    studio, project, body = _studio(request), _project(request), await _body(request)
    target, family = _choice(body)
    if project.state()["issued"] and body.get("again") is not True:
        raise ArgumentError(
            "The certification records of this project were looked at before. Another certificate is another look at "
            "them: confirm that you want it."
        )
    key = studio.key(public=False) if body.get("sign") is True else None
    studio.start(project, "issue", lambda: project.issue(target, family, key))
    return JSONResponse({"running": "issue"})


async def _file(request: Request) -> Response:
    studio, project, name = _studio(request), _project(request), request.path_params["name"]
    if name == "bundle.zip":
        packed = await run_in_threadpool(project.last_issued().publish, studio.key(public=True))
        headers = {"Content-Disposition": 'attachment; filename="bundle.zip"'}
        return Response(packed, media_type="application/zip", headers=headers)
    if name == "report.html":
        return FileResponse(project.last_issued().file(name), headers={"Content-Security-Policy": REPORT_POLICY})
    return FileResponse(project.last_issued().file(name), filename=name)


async def _check(request: Request) -> Response:
    studio = _studio(request)
    return JSONResponse(await run_in_threadpool(_project(request).last_issued().check, studio.key(public=True)))


async def _fresh(request: Request) -> Response:
    """Verify the certificate on fresh records, or add them to its history as a period."""
    studio, project = _studio(request), _project(request)
    issued = project.last_issued()
    path, name = await studio.store(request, project.folder / f"fresh-{secrets.token_hex(4)}")
    try:
        with _called(path, name):
            if "period" not in request.query_params:
                return JSONResponse(await run_in_threadpool(issued.check, studio.key(public=True), path))
            period = request.query_params["period"].strip()[:60] or Path(name).stem
            await run_in_threadpool(issued.add_period, path, period)
            return JSONResponse({})
    finally:
        path.unlink(missing_ok=True)


async def _history(request: Request) -> Response:
    page = await run_in_threadpool(_project(request).last_issued().history)
    if page is None:
        raise HTTPException(404, "There is no history yet.")
    return HTMLResponse(page, headers={"Content-Security-Policy": REPORT_POLICY})


def _packaged(name: str) -> str:
    return files("certifare.studio").joinpath("static", name).read_text("utf-8")


async def _mistake(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)[:2000]}, 400)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  (registered for these alone)
    return JSONResponse({"error": error.detail}, error.status_code)


async def _bug(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"A mistake in certifare itself: {type(error).__name__}: {error}"[:2000]}, 500)


def make_app(studio: Studio, token: str, port: int) -> Starlette:
    """Return the application, which answers those who know the token, at this port of this machine."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(studio.close)

    own = "/projects/{project}"
    routes = [
        Route("/", _home),
        Route("/static/{name}", _static),
        Route(own, _page),
        *(
            Route(f"{own}/{path}", answer, methods=[method])
            for method, path, answer in (
                ("GET", "state", _state),
                ("PUT", "table", _upload),
                ("POST", "example", _example),
                ("POST", "roles", _roles),
                ("GET", "plan", _plan),
                ("POST", "explore", _explore),
                ("POST", "cancel", _cancel),
                ("POST", "choice", _choose),
                ("GET", "events", _events),
                ("GET", "understand", _understand),
                ("GET", "explain", _explain),
                ("POST", "issue", _issue),
                ("GET", "files/{name}", _file),
                ("GET", "check", _check),
                ("PUT", "fresh", _fresh),
                ("GET", "history", _history),
            )
        ),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, token=token, port=port)],
        exception_handlers={CertifareError: _mistake, HTTPException: _refused, Exception: _bug},
        lifespan=lifespan,
    )
    app.state.studio = studio
    return app
