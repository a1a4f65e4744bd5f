"""Refuse every request that does not come from the page that this server showed to its user."""

from __future__ import annotations

import secrets

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: What the page may load: its own files. No script, style or connection comes from elsewhere, and none is inline.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: What a report may do that the page shows in a frame: nothing but look like itself.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox allow-same-origin"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STRANGER = (
    "This address needs the token of the running studio. Open the address that `certifare studio` printed when it "
    "started; after a restart it prints a new one. Projects are kept in its folder."
)


class Guard:
    """Middleware that checks host, origin and token of every request, and sets the headers of every answer.

    Only requests to this port of this machine, by these names of it, are answered: a foreign name that leads here (DNS
    rebinding) is refused. The first address carries the token, later requests a cookie.
    """

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._cookie = f"certifare-studio-{port}"  # browsers share the cookies of all ports of a machine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Content-Security-Policy", POLICY)
            await send(message)

        answer = self._refusal(scope)
        await (self._app if answer is None else answer)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        request = HTTPConnection(scope)
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host not in self._hosts:
            return PlainTextResponse("The studio answers on this machine only, by the address that it printed.", 421)
        safe = scope["method"] in ("GET", "HEAD")
        own = origin == f"http://{host}" or (origin is None and safe)
        if not own or request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return PlainTextResponse("Requests of other pages are refused.", 403)
        if safe and scope["path"] == "/" and self._is_token(request.query_params.get("token", "")):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return answer
        return None if self._is_token(request.cookies.get(self._cookie, "")) else PlainTextResponse(STRANGER, 403)

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode("utf-8", "surrogateescape"), self._token.encode())
