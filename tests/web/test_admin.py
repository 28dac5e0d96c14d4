"""The admin: signing in, keeping sites, starting and stopping, and that nobody else can do any of it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from selectolax.lexbor import LexborHTMLParser
from sqlalchemy.engine import Engine
from werkzeug.test import TestResponse

from crawler import database
from crawler.frontier import Frontier
from crawler.records import RejectedUrl, Rejection, RenderMode, RunState, SiteScope, SiteSettings, Strategy
from services import control
from tests.web.conftest import PASSWORD, Keeper, token

SEEDS = json.loads((Path(__file__).parent / "cases" / "c58_seeds.json").read_text())["refuse"]
CHANGES = ["/admin/sign-out", "/admin/sites/1/start", "/admin/sites/1/stop", "/admin/sites/1/delete"]


def post(client: FlaskClient, path: str, form_on: str | None = None, **fields: str) -> TestResponse:
    """Press a button, with the token of the page that it stands on."""
    return client.post(path, data={"csrf_token": token(client, form_on or path), **fields})


def sign_in(client: FlaskClient, password: str, name: str = "mei", path: str = "/admin/sign-in") -> TestResponse:
    return post(client, path, name=name, password=password)


class TestSigningIn:
    @pytest.mark.parametrize(
        "path", ["/admin/", "/admin/sites/add", "/admin/sites/1", "/admin/explain?url=http://a.example/"]
    )
    def test_without_a_session_every_page_leads_to_the_form(self, client: FlaskClient, path: str) -> None:
        answer = client.get(path)
        assert answer.status_code == 302
        assert answer.location.startswith("/admin/sign-in?next=/admin/")

    def test_after_signing_in_the_owner_is_where_they_wanted_to_be(self, client: FlaskClient, engine: Engine) -> None:
        answer = sign_in(client, PASSWORD, path="/admin/sign-in?next=/admin/explain?url%3Dx")
        assert (answer.status_code, answer.location) == (302, "/admin/explain?url=x")
        assert client.get("/admin/").status_code == 200

    @pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", "/\\evil.example"])
    def test_signing_in_leads_nowhere_else(self, client: FlaskClient, engine: Engine, target: str) -> None:
        assert sign_in(client, PASSWORD, path=f"/admin/sign-in?next={target}").location == "/admin/"

    def test_wrong_passwords_are_refused_and_slowed_down(self, client: FlaskClient, engine: Engine) -> None:
        answer = sign_in(client, "wrong")
        assert answer.status_code == 401
        assert "do not fit together" in answer.text
        many = {"subject": "name:mei", "failures": 20, "last_at": datetime.now(UTC)}
        with database.write(engine) as conn:
            conn.execute(sa.delete(database.sign_in_tries))
            conn.execute(sa.insert(database.sign_in_tries), many)
        answer = sign_in(client, PASSWORD)
        assert answer.status_code == 429, "the right password waits like any other"
        assert "Too many tries. Please wait" in answer.text

    def test_the_cookie_is_the_portals_alone(self, client: FlaskClient, engine: Engine, app: Flask) -> None:
        cookie = next(value for value in sign_in(client, PASSWORD).headers.getlist("Set-Cookie") if "session" in value)
        assert {"HttpOnly", "SameSite=Lax"} <= set(cookie.split("; "))
        assert cookie.startswith(str(app.config["SESSION_COOKIE_NAME"]))

    def test_signing_out_and_a_new_password_end_the_session(self, owner: FlaskClient, engine: Engine) -> None:
        assert owner.get("/admin/").status_code == 200
        control.set_password(engine, control.list_users(engine)[0].user_id, "another password")
        assert owner.get("/admin/").status_code == 302
        assert sign_in(owner, "another password").status_code == 302
        post(owner, "/admin/sign-out", "/admin/")
        assert owner.get("/admin/").status_code == 302

    def test_pages_of_the_admin_are_kept_by_nobody(self, owner: FlaskClient) -> None:
        assert owner.get("/admin/").headers["Cache-Control"] == "no-store"


class TestForgery:
    @pytest.mark.parametrize("path", CHANGES)
    def test_looking_changes_nothing(self, owner: FlaskClient, keeper: Keeper, path: str) -> None:
        keeper.site()
        codes = {owner.get(path).status_code, owner.head(path).status_code}
        assert codes <= ({200} if path.endswith("delete") else {404, 405})
        assert control.latest_runs(keeper.engine) == {}
        assert len(control.list_sites(keeper.engine)) == 1

    @pytest.mark.parametrize(
        "path", [*CHANGES, "/admin/sites/add", "/admin/sites/1/settings", "/admin/sites/1/schedule"]
    )
    def test_a_change_without_its_token_is_refused(
        self, owner: FlaskClient, app: Flask, keeper: Keeper, path: str
    ) -> None:
        keeper.site()
        stranger = app.test_client()
        fields = {"seeds": "http://evil.example/", "kind": "never"}
        stolen = {**fields, "csrf_token": token(stranger, "/admin/sign-in")}
        for data, kind in (
            (fields, "application/x-www-form-urlencoded"),
            (stolen, "application/x-www-form-urlencoded"),
            ('{"site":1,"x":"="}', "text/plain"),
            ('{"site":1}', "application/json"),
        ):
            assert owner.post(path, data=data, content_type=kind).status_code in (400, 403)
        assert control.latest_runs(keeper.engine) == {}
        assert [site.key for site in control.list_sites(keeper.engine)] == ["archived.example:80"]
        assert owner.get("/admin/").status_code == 200

    def test_a_stranger_with_a_token_may_do_nothing(self, client: FlaskClient, keeper: Keeper) -> None:
        keeper.site()
        assert post(client, "/admin/sites/1/start", "/admin/sign-in").status_code == 403
        assert control.latest_runs(keeper.engine) == {}


class TestSites:
    def test_a_site_is_added_with_all_its_settings_and_shown_again(self, owner: FlaskClient, engine: Engine) -> None:
        answer = post(
            owner,
            "/admin/sites/add",
            seeds="https://News.example.cn/a\r\n\r\n https://news.example.cn/b ",
            name="新闻",
            enabled="y",
            hosts="*.example.cn",
            prefix="y",
            include="/news/*",
            exclude="/print/*\n*sort=*",
            max_depth="3",
            max_pages="1000",
            strategy="best-first",
            render="never",
            delay_s="2.5",
            headers="Cookie: a=1; b: 2",
            proxy="socks5h://127.0.0.1:1080",
            allow_private="10.0.0.5:80",
        )
        (site,) = control.list_sites(engine)
        assert answer.location == f"/admin/sites/{site.site_id}"
        assert site.settings == SiteSettings(
            seeds=("https://news.example.cn/a", "https://news.example.cn/b"),
            name="新闻",
            scope=SiteScope(("*.example.cn",), ("/news/*",), ("/print/*", "*sort=*"), True, 3, 1000),
            strategy=Strategy.BEST_FIRST,
            render=RenderMode.NEVER,
            delay_s=2.5,
            allow_private=("10.0.0.5:80",),
            headers=(("Cookie", "a=1; b: 2"),),
            proxy="socks5h://127.0.0.1:1080",
        )
        form = LexborHTMLParser(owner.get(f"/admin/sites/{site.site_id}/settings").text)
        fields = {
            node.attributes["name"]: node.attributes.get("value") or node.text()
            for node in form.css("form.form [name]")
        }
        again = {name: str(value).strip() for name, value in fields.items() if name not in ("strategy", "render")}
        post(owner, f"/admin/sites/{site.site_id}/settings", **again, strategy="best-first", render="never")
        assert control.get_site(engine, site.site_id).settings == site.settings

    @pytest.mark.parametrize("seed", SEEDS)
    def test_private_addresses_and_odd_schemes_are_refused_in_words(
        self, owner: FlaskClient, engine: Engine, seed: str
    ) -> None:
        answer = post(owner, "/admin/sites/add", seeds=seed, strategy="breadth-first", render="auto")
        assert answer.status_code == 400
        (error,) = LexborHTMLParser(answer.text).css("#seeds-error .error")
        assert "private address" in error.text() or "begins with http" in error.text()
        assert control.list_sites(engine) == []

    def test_a_private_address_that_is_named_is_taken(self, owner: FlaskClient, engine: Engine) -> None:
        fields = {"seeds": "http://127.0.0.1:8000/", "strategy": "breadth-first", "render": "auto"}
        post(owner, "/admin/sites/add", **fields, allow_private="127.0.0.1:8000")
        assert [site.key for site in control.list_sites(engine)] == ["127.0.0.1:8000"]

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("seeds", " \n "),
            ("hosts", "http://a.example"),
            ("include", "news"),
            ("max_depth", "-1"),
            ("max_depth", "many"),
            ("max_pages", "0"),
            ("delay_s", "nan"),
            ("headers", "no colon"),
            ("headers", "Sp ace: x"),
            ("proxy", "ftp://x"),
            ("proxy", "http://x"),
            ("allow_private", "10.0.0.5"),
            ("strategy", "luck"),
        ],
    )
    def test_what_cannot_be_is_said_at_the_field(
        self, owner: FlaskClient, engine: Engine, field: str, value: str
    ) -> None:
        fields = {"seeds": "http://a.example/", "strategy": "breadth-first", "render": "auto", field: value}
        answer = post(owner, "/admin/sites/add", **fields)
        assert answer.status_code == 400
        page = LexborHTMLParser(answer.text)
        assert page.css_first(f"#{field}-error .error") is not None
        assert page.css_first(f"#{field}").attributes["aria-invalid"] == "true"
        assert control.list_sites(engine) == []

    def test_a_site_is_not_added_twice(self, owner: FlaskClient, engine: Engine) -> None:
        fields = {"seeds": "http://a.example/", "strategy": "breadth-first", "render": "auto"}
        assert post(owner, "/admin/sites/add", **fields).status_code == 302
        assert "already" in post(owner, "/admin/sites/add", **fields).text
        assert len(control.list_sites(engine)) == 1

    def test_deleting_asks_first(self, owner: FlaskClient, keeper: Keeper) -> None:
        site_id = keeper.site()
        keeper.keep("<p>x")
        assert "cannot be undone" in owner.get(f"/admin/sites/{site_id}/delete").text
        answer = post(owner, f"/admin/sites/{site_id}/delete")
        assert answer.location == "/admin/"
        assert control.list_sites(keeper.engine) == []
        assert owner.get(f"/admin/sites/{site_id}").status_code == 404


class TestRuns:
    def test_start_and_stop_may_be_pressed_in_any_order_and_twice(self, owner: FlaskClient, keeper: Keeper) -> None:
        site_id = keeper.site()
        page = f"/admin/sites/{site_id}"

        def press(button: str) -> str:
            answer = post(owner, f"{page}/{button}", page)
            assert (answer.status_code, answer.location) == (303, page)
            return owner.get(page).text

        assert "Nothing was running" in press("stop")
        assert "The crawl begins" in press("start")
        assert "running already" in press("start")
        assert len(control.history(keeper.engine, site_id)) == 1
        assert "Stopped" in press("stop")
        assert "Stopped" in press("stop")
        assert "The crawl begins" in press("start")
        (run,) = control.history(keeper.engine, site_id)
        assert (run.run.state, run.run.asked_by) == (RunState.QUEUED, "mei")

    def test_the_list_starts_and_comes_back_to_the_list(self, owner: FlaskClient, keeper: Keeper) -> None:
        site_id = keeper.site()
        answer = post(owner, f"/admin/sites/{site_id}/start", "/admin/", **{"from": "home"})
        assert answer.location == "/admin/"
        page = owner.get("/admin/").text
        assert "No crawler is running" in page, "a run without a crawler does not claim to run"
        assert "live.js" in page

    def test_a_site_that_is_not_there_is_404(self, owner: FlaskClient) -> None:
        for button in ("start", "stop", "delete"):
            assert post(owner, f"/admin/sites/99/{button}", "/admin/").status_code == 404
        for page in ("", "/settings", "/schedule", "/delete"):
            assert owner.get(f"/admin/sites/99{page}").status_code == 404

    def test_progress_failures_and_refusals_are_shown_with_their_urls(self, owner: FlaskClient, keeper: Keeper) -> None:
        site_id = keeper.site()
        run_id = control.start(keeper.engine, site_id, "mei").run_id
        now = datetime.now(UTC)
        evil = "http://archived.example/<script>alert(1)</script>"
        frontier = Frontier("test")
        with database.write(keeper.engine) as conn:
            frontier.begin_runs(conn, now)
            refused = RejectedUrl(run_id, evil, evil, Rejection.ROBOTS, "javascript:alert(2)")
            frontier.reject(conn, [refused], now)
        page = owner.get(f"/admin/sites/{site_id}")
        shown = LexborHTMLParser(page.text)
        group = shown.css_first("#rejection-robots")
        assert "Forbidden by the site's robots.txt" in group.text()
        assert evil in group.text()
        assert not shown.css("main script, a[href^='javascript']")

    def test_a_schedule_is_kept_and_taken_away(self, owner: FlaskClient, keeper: Keeper) -> None:
        path = f"/admin/sites/{keeper.site()}/schedule"
        post(owner, path, kind="interval", every="1.5", unit="3600", time_zone="UTC")
        kept = control.get_schedule(keeper.engine, 1)
        assert kept is not None
        assert kept.schedule == control.Schedule(interval_s=5400.0, time_zone="UTC")
        post(owner, path, kind="cron", cron=" 30  3 * * 1-5", time_zone="Asia/Shanghai", unit="60")
        kept = control.get_schedule(keeper.engine, 1)
        assert kept is not None
        assert kept.schedule == control.Schedule(cron="30 3 * * 1-5", time_zone="Asia/Shanghai")
        assert 'value="30 3 * * 1-5"' in owner.get(path).text
        post(owner, path, kind="never", unit="60")
        assert control.get_schedule(keeper.engine, 1) is None

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"kind": "interval", "every": "", "time_zone": "UTC"}, "every"),
            ({"kind": "interval", "every": "-1", "time_zone": "UTC"}, "every"),
            ({"kind": "cron", "cron": "1 2 3", "time_zone": "UTC"}, "cron"),
            ({"kind": "cron", "cron": "61 * * * *", "time_zone": "UTC"}, "cron"),
            ({"kind": "cron", "cron": "0 0 30 2 *", "time_zone": "UTC"}, "cron"),
            ({"kind": "cron", "cron": "0 0 * * *", "time_zone": "Mars/Base"}, "time_zone"),
            ({"kind": "cron", "cron": "0 0 * * *", "time_zone": "../../etc/passwd"}, "time_zone"),
            ({"kind": "cron", "cron": "0 0 * * *", "time_zone": ""}, "time_zone"),
        ],
    )
    def test_a_schedule_that_says_nothing_is_refused(
        self, owner: FlaskClient, keeper: Keeper, fields: dict[str, str], field: str
    ) -> None:
        answer = post(owner, f"/admin/sites/{keeper.site()}/schedule", unit="60", **fields)
        assert answer.status_code == 400
        assert LexborHTMLParser(answer.text).css_first(f"#{field}-error .error") is not None
        assert control.get_schedule(keeper.engine, 1) is None


class TestExplain:
    def test_a_known_url_is_told_with_its_captures(self, owner: FlaskClient, keeper: Keeper) -> None:
        capture = keeper.keep("<p>x", "http://archived.example/a")
        page = owner.get("/admin/explain?url=http://archived.example/a").text
        assert f'href="/snapshot/{capture}"' in page
        assert "archived.example:80" in page

    @pytest.mark.parametrize("url", ["http://elsewhere.example/", "HTTP://ELSEWHERE.example:80"])
    def test_an_unknown_url_is_told_as_such(self, owner: FlaskClient, keeper: Keeper, url: str) -> None:
        keeper.site()
        page = owner.get("/admin/explain", query_string={"url": url}).text
        assert "no crawl has found this address" in page
        assert "Outside the site" in page.replace("&#39;", "'")

    @pytest.mark.parametrize(
        "url",
        ["x", "javascript:alert(1)", "file:///etc/passwd", "http://", '"><script>', "http://a.example/" + "x" * 9000],
    )
    def test_what_is_no_url_is_said_in_words(self, owner: FlaskClient, url: str) -> None:
        answer = owner.get("/admin/explain", query_string={"url": url})
        assert answer.status_code == 200
        assert "not an address that could be crawled" in answer.text
        assert not re.search(r"<script>", answer.text)
