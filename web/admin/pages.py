"""The admin's pages and buttons. Every change is a POST with a token; every start and stop may be pressed twice."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Blueprint, abort, flash, redirect, render_template, request, session, url_for
from flask_babel import gettext as _
from flask_babel import ngettext
from flask_login import current_user, login_user, logout_user
from werkzeug.wrappers import Response

from crawler.errors import BadUrl
from crawler.records import RunState
from services import control
from services.control.schedules import KeptSchedule
from services.control.seeds import refused_seeds
from services.errors import ConfigurationError, SearchRefused, SearchUnavailable
from web import words
from web.admin.forms import ScheduleForm, SignInForm, SiteForm
from web.admin.sessions import Account
from web.backends import backends
from web.links import local_path

blueprint = Blueprint("admin", __name__, url_prefix="/admin")

_OPEN = frozenset({"admin.sign_in"})
_STOPPABLE = frozenset({RunState.QUEUED, RunState.RUNNING})
_UNDER_WAY = frozenset({RunState.QUEUED, RunState.RUNNING, RunState.STOPPING})
_HISTORY = 10

Page = str | Response | tuple[str, int]


@dataclass(frozen=True, slots=True)
class SiteLine:
    """One site with its newest run and its schedule, as the pages show it."""

    site: control.Site
    latest: control.RunProgress | None
    schedule: KeptSchedule | None

    @property
    def state(self) -> str:
        return self.latest.state if self.latest else "never"

    @property
    def waiting(self) -> int:
        return self.latest.waiting if self.latest else 0

    @property
    def refused(self) -> int:
        return self.latest.refused if self.latest else 0

    @property
    def can_stop(self) -> bool:
        return self.latest is not None and self.latest.run.state in _STOPPABLE

    @property
    def is_under_way(self) -> bool:
        return self.latest is not None and self.latest.run.state in _UNDER_WAY


@blueprint.before_request
def require_sign_in() -> Response | None:
    """Nobody sees the admin, or changes anything, without a session."""
    if request.endpoint in _OPEN or current_user.is_authenticated:
        return None
    if request.method != "GET":
        abort(403)
    return redirect(url_for("admin.sign_in", next=request.full_path.rstrip("?")))


@blueprint.route("/sign-in", methods=["GET", "POST"])
def sign_in() -> Page:
    if current_user.is_authenticated:
        return redirect(url_for("admin.home"))
    form = SignInForm()
    if not form.validate_on_submit():
        return render_template("admin/sign_in.html", form=form, problem=None)
    found = control.sign_in(backends().engine, form.name.data, form.password.data, request.remote_addr or "")
    if found.user is None:
        problem = _wait(found.wait_s) if found.wait_s > 0 else _("Name and password do not fit together.")
        return render_template("admin/sign_in.html", form=form, problem=problem), 429 if found.wait_s > 0 else 401
    session.clear()  # Nothing that was put into the browser before the sign-in lives on in the session.
    session.permanent = True
    login_user(Account(found.user))
    return redirect(local_path(request.args.get("next", ""), url_for("admin.home")))


@blueprint.post("/sign-out")
def sign_out() -> Response:
    logout_user()
    session.clear()
    return redirect(url_for("search.start"))


@blueprint.get("/")
def home() -> Page:
    """All sites, and the services that work on them."""
    engine = backends().engine
    latest = control.latest_runs(engine)
    schedules = {kept.site_id: kept for kept in control.list_schedules(engine)}
    sites = [
        SiteLine(site, latest.get(site.site_id), schedules.get(site.site_id)) for site in control.list_sites(engine)
    ]
    return render_template(
        "admin/home.html",
        sites=sorted(sites, key=lambda line: (not line.is_under_way, line.site.shown_name)),
        workers=control.list_workers(engine),
        documents=_documents(),
        words=words,
        is_live=any(line.is_under_way for line in sites),
    )


@blueprint.route("/sites/add", methods=["GET", "POST"])
def add() -> Page:
    form = SiteForm()
    if form.validate_on_submit() and _may_crawl(form):
        settings = form.to_settings()
        key = control.site_key(settings)
        if control.find_site(backends().engine, key) is not None:
            form.seeds.errors = [*form.seeds.errors, _("There is a site %(key)s already.", key=key)]
        elif (site_id := _save(form, key)) is not None:
            flash(_("The site is added. Look over its settings, or start it."), "good")
            return redirect(url_for("admin.site", site_id=site_id))
    return render_template("admin/site_edit.html", form=form, site=None), 400 if form.errors else 200


@blueprint.get("/sites/<int:site_id>")
def site(site_id: int) -> Page:
    """One site: what its newest run does, what failed, what was left out."""
    engine = backends().engine
    found = control.get_site(engine, site_id)
    runs = control.history(engine, site_id, _HISTORY)
    run_id = runs[0].run.run_id if runs else None
    latest = control.progress(engine, run_id) if run_id else None
    line = SiteLine(found, latest, control.get_schedule(engine, site_id))
    return render_template(
        "admin/site.html",
        line=line,
        site=found,
        runs=runs,
        failures=control.failures(engine, run_id) if run_id else (),
        rejections=control.rejections(engine, run_id) if run_id else (),
        refused=control.refused_documents(engine, site_id),
        words=words,
        is_live=line.is_under_way,
    )


@blueprint.route("/sites/<int:site_id>/settings", methods=["GET", "POST"])
def edit(site_id: int) -> Page:
    found = control.get_site(backends().engine, site_id)
    form = SiteForm()
    if not form.is_submitted():
        form.fill_from(found.settings)
    elif form.validate() and _may_crawl(form) and _save(form, found.key) is not None:
        flash(_("Saved. A run that is under way goes on with the settings that it began with."), "good")
        return redirect(url_for("admin.site", site_id=site_id))
    return render_template("admin/site_edit.html", form=form, site=found), 400 if form.errors else 200


@blueprint.route("/sites/<int:site_id>/schedule", methods=["GET", "POST"])
def schedule(site_id: int) -> Page:
    engine = backends().engine
    found = control.get_site(engine, site_id)
    form = ScheduleForm()
    if not form.is_submitted():
        kept = control.get_schedule(engine, site_id)
        form.fill_from(kept.schedule if kept else None)
    elif form.validate() and _keep_schedule(form, site_id):
        flash(_("The schedule is saved."), "good")
        return redirect(url_for("admin.site", site_id=site_id))
    return render_template("admin/schedule.html", form=form, site=found), 400 if form.errors else 200


@blueprint.post("/sites/<int:site_id>/start")
def start(site_id: int) -> Response:
    started = control.start(backends().engine, site_id, current_user.name)
    flash(_("It is running already.") if started.already_running else _("The crawl begins."), "good")
    return _back_to(site_id)


@blueprint.post("/sites/<int:site_id>/stop")
def stop(site_id: int) -> Response:
    control.get_site(backends().engine, site_id)
    run_id = control.stop(backends().engine, site_id)
    flash(
        _("Nothing was running.") if run_id is None else _("The crawl stops once what is under way has ended."), "good"
    )
    return _back_to(site_id)


@blueprint.get("/sites/<int:site_id>/delete")
def ask_delete(site_id: int) -> Page:
    return render_template("admin/delete.html", site=control.get_site(backends().engine, site_id))


@blueprint.post("/sites/<int:site_id>/delete")
def delete(site_id: int) -> Response:
    found = control.get_site(backends().engine, site_id)
    control.delete_site(backends().engine, site_id)
    flash(_("%(site)s is deleted.", site=found.shown_name), "good")
    return redirect(url_for("admin.home"))


@blueprint.get("/explain")
def explain() -> Page:
    """All that is known of one URL."""
    url = request.args.get("url", "").strip()
    history, problem = None, None
    if url:
        try:
            history = control.explain(backends().engine, url)
        except BadUrl:
            problem = _("This is not an address that could be crawled; it begins with http:// or https://.")
    return render_template("admin/explain.html", url=url, history=history, problem=problem, words=words)


def _wait(seconds: float) -> str:
    whole = int(seconds) + 1
    sentence: str = ngettext(
        "Too many tries. Please wait %(num)d second.", "Too many tries. Please wait %(num)d seconds.", whole
    )
    return sentence


def _documents() -> int | None:
    try:
        return backends().elastic.count()
    except (SearchUnavailable, SearchRefused, ConfigurationError):
        return None


def _may_crawl(form: SiteForm) -> bool:
    """Whether no seed leads to a private address that is not allowed; says so at the field if one does."""
    refused = refused_seeds(form.to_settings())
    form.seeds.errors = [
        *form.seeds.errors,
        *(
            _(
                "%(url)s leads to a private address. If it is a site of your own network, allow %(host)s below.",
                url=seed.url,
                host=seed.host,
            )
            for seed in refused
        ),
    ]
    return not refused


def _save(form: SiteForm, key: str) -> int | None:
    """Keep the settings; the site's id. None, with a word at the form, if they cannot be used."""
    try:
        return control.create_or_update(backends().engine, key, form.to_settings())
    except ConfigurationError as exc:
        form.seeds.errors = [*form.seeds.errors, str(exc)]
        return None


def _keep_schedule(form: ScheduleForm, site_id: int) -> bool:
    wanted = form.to_schedule()
    try:
        if wanted is None:
            control.remove_schedule(backends().engine, site_id)
        else:
            control.set_schedule(backends().engine, site_id, wanted)
    except ConfigurationError as exc:
        form.cron.errors = [*form.cron.errors, str(exc)]
        return False
    return True


def _back_to(site_id: int) -> Response:
    """To the page on which the button was pressed: the list, or the site's own."""
    if request.form.get("from") == "home":
        return redirect(url_for("admin.home"), 303)
    return redirect(url_for("admin.site", site_id=site_id), 303)
