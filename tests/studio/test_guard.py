"""Whoever is not the page of this studio is refused."""

import pytest
from starlette.testclient import TestClient

from certifare.studio.guard import POLICY

from .conftest import ADDRESS, PORT, own_project
from .served import TOKEN

ROUTES = [
    ("GET", ""), ("GET", "/state"), ("PUT", "/table"), ("POST", "/example"), ("POST", "/roles"),
    ("POST", "/explore"), ("POST", "/cancel"), ("POST", "/choice"), ("GET", "/events"), ("GET", "/understand"),
    ("GET", "/explain"), ("POST", "/issue"), ("GET", "/files/bundle.zip"), ("GET", "/check"), ("PUT", "/fresh"),
]  # fmt: skip


@pytest.fixture
def stranger(server):
    """Somebody on this machine who has not seen the token."""
    return TestClient(server.client.app, base_url=ADDRESS, headers={"Origin": ADDRESS})


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_request_needs_the_token(server, stranger, method, path):
    own = own_project(server.client)
    assert stranger.request(method, own + path).status_code == 403
    assert stranger.request(method, f"{own}{path}?token={TOKEN}").status_code == 403  # a token opens the page, once
    stranger.cookies.set(f"certifare-studio-{PORT}", TOKEN[:-1])
    refused = stranger.request(method, own + path)
    assert refused.status_code == 403
    assert "Open the address" in refused.text


def test_the_first_address_becomes_a_cookie_that_no_script_and_no_other_site_can_use(stranger):
    answer = stranger.get(f"/?token={TOKEN}", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert stranger.get("/?token=wrong").status_code == 200  # the cookie counts from here on
    stranger.cookies.clear()
    assert stranger.get("/?token=wrong").status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"0.0.0.0:{PORT}"]
)
def test_a_name_that_was_pointed_at_this_machine_is_refused(server, host):
    assert server.client.get("/", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", f"http://localhost:{PORT}", "https://127.0.0.1:8765"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_requests_of_other_pages_are_refused(server, origin, method):
    own = own_project(server.client)
    path = f"{own}/state" if method == "GET" else f"{own}/example"
    assert server.client.request(method, path, headers={"Origin": origin}).status_code == 403


def test_a_request_that_changes_something_names_its_origin(server):
    own = own_project(server.client)
    quiet = TestClient(server.client.app, base_url=ADDRESS, cookies=server.client.cookies)
    assert quiet.get(f"{own}/state").status_code == 200
    assert quiet.post(f"{own}/example").status_code == 403
    assert quiet.get(f"{own}/state", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


def test_every_answer_forbids_inline_scripts_and_foreign_files(server, stranger):
    own = own_project(server.client)
    answers = [server.client.get(path) for path in (own, f"{own}/state", "/static/studio.js", f"{own}/nothing")]
    for answer in [*answers, stranger.get(own)]:
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
    assert "unsafe" not in POLICY
    page = server.client.get(own).text
    assert "<style" not in page
    assert "onclick" not in page
    assert 'style="' not in page
