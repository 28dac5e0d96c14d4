"""The charts that Kibana shows, drawn on the server: pictures of what the portal holds and of how it is doing."""

from __future__ import annotations

from flask import Response, abort, render_template
from flask_babel import LazyString, ngettext
from flask_babel import lazy_gettext as _l

from services.kibana.charts import Period, render_panel
from services.kibana.dashboards import DASHBOARDS, Dashboard
from web.admin.pages import blueprint
from web.backends import backends

DASHBOARD_TITLES: dict[str, LazyString] = {
    "crawl-in-progress": _l("Crawl in progress"),
    "sites-and-hosts": _l("Sites and hosts"),
    "failures-by-cause": _l("Failures by cause"),
    "freshness": _l("Freshness"),
    "content-over-time": _l("Content over time"),
    "languages-and-kinds": _l("Languages and kinds"),
    "searches": _l("Searches"),
}

CHART_TITLES: dict[str, LazyString] = {
    "answer-times": _l("Answer times"),
    "bytes-by-host": _l("Bytes by host"),
    "bytes-over-time": _l("Bytes over time"),
    "captures-by-site": _l("Oldest, middle and newest capture by site"),
    "captures-over-time": _l("When pages were last captured"),
    "changed-or-unchanged": _l("Changed or unchanged"),
    "charsets": _l("Charsets"),
    "failing-hosts": _l("Failing hosts"),
    "failures-by-cause": _l("Failures by cause"),
    "failures-over-time": _l("Failures over time"),
    "host-answer-times": _l("Slow hosts"),
    "hosts-visited": _l("Hosts visited most"),
    "http-statuses": _l("HTTP status codes"),
    "kinds": _l("Kinds of page"),
    "languages": _l("Languages"),
    "media-types": _l("Media types"),
    "page-sizes": _l("Sizes of pages"),
    "pages-by-site": _l("Pages by site"),
    "publications-by-site": _l("Publications by site"),
    "publications-over-time": _l("Pages by date of publication"),
    "refusals-by-reason": _l("Refused URLs by reason"),
    "search-times": _l("Search times"),
    "searches-over-time": _l("Searches over time"),
    "searches-without-results": _l("Searches without results"),
    "top-searches": _l("Searched most"),
    "visits-by-site": _l("Visits by site"),
    "visits-over-time": _l("Visits over time"),
}

_DASHBOARD_OF = {panel: dashboard for dashboard in DASHBOARDS for panel in dashboard.panels}


@blueprint.get("/charts")
def charts() -> str:
    """All of them, in the groups that Kibana has as dashboards."""
    return render_template(
        "admin/charts.html", dashboards=DASHBOARDS, titles=DASHBOARD_TITLES, charts=CHART_TITLES, period=_period
    )


@blueprint.get("/charts/<name>.svg")
def chart(name: str) -> Response:
    """One, over the time that its group shows."""
    if name not in _DASHBOARD_OF:
        abort(404)
    svg = render_panel(backends().elastic, name, Period.of_dashboard(_DASHBOARD_OF[name]))
    return Response(svg, mimetype="image/svg+xml")


def _period(dashboard: Dashboard) -> str:
    number, unit = dashboard.period
    if unit == "h":
        return str(ngettext("last hour", "last %(num)d hours", number))
    if unit == "d":
        return str(ngettext("last day", "last %(num)d days", number))
    return str(ngettext("last year", "last %(num)d years", number))
