"""The admin's forms: what the owner types, checked and turned into the records of the crawler, and back."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_wtf import FlaskForm
from wtforms import (
    BooleanField,
    Field,
    FloatField,
    IntegerField,
    PasswordField,
    SelectField,
    StringField,
    TextAreaField,
    ValidationError,
)
from wtforms.fields.choices import SelectChoice
from wtforms.validators import InputRequired, Length, NumberRange, Optional, StopValidation

from crawler.errors import BadUrl
from crawler.records import RenderMode, SiteScope, SiteSettings, Strategy
from crawler.urls import normalize
from services.control import Schedule
from web.formats import local_zone

_MAX_LINES = 1000
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HOST_PATTERN = re.compile(r"(\*\.)?[^\s/?#@*]+")
_PROXY = re.compile(r"(https?|socks5h?)://[^\s/?#]+:\d{1,5}/?")


class LinesField(TextAreaField):  # type: ignore[misc]
    """A text area of which each line that is not empty is one value."""

    @property
    def lines(self) -> tuple[str, ...]:
        stripped = (line.strip() for line in (self.data or "").splitlines())
        return tuple(dict.fromkeys(line for line in stripped if line))


class IfChosen:
    """A field of the schedule that only matters, and then must be filled, for one kind of schedule."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __call__(self, form: ScheduleForm, field: Field) -> None:
        if form.kind.data != self._kind:
            field.errors = []
            raise StopValidation
        if field.data is None and not field.errors:
            raise StopValidation(_("Please enter how often."))


class SignInForm(FlaskForm):  # type: ignore[misc]
    """Name and password."""

    name = StringField(_l("User name"), [InputRequired(_l("Please enter your user name.")), Length(max=200)])
    password = PasswordField(_l("Password"), [InputRequired(_l("Please enter your password.")), Length(max=1000)])


class SiteForm(FlaskForm):  # type: ignore[misc]
    """Everything the owner sets for one site."""

    seeds = LinesField(
        _l("Start addresses"),
        [InputRequired(_l("Please enter at least one address, such as https://www.example.cn/."))],
        description=_l("One a line. The crawl begins there and stays on the same hosts unless you say otherwise."),
    )
    name = StringField(
        _l("Name"), [Length(max=200)], description=_l("How the site is called in the filters; empty: its host.")
    )
    enabled = BooleanField(_l("Crawl this site when its schedule says so"), default=True)

    hosts = LinesField(
        _l("Other hosts that belong to it"),
        description=_l("One a line: img.example.cn, or *.example.cn for all sub-domains."),
    )
    prefix = BooleanField(_l("Only pages under the folders of the start addresses"))
    include = LinesField(
        _l("Only these paths"),
        description=_l("One pattern a line, * stands for anything: /news/*. Empty: all paths."),
    )
    exclude = LinesField(_l("Never these paths"), description=_l("One pattern a line: /print/*, *sort=*."))
    max_depth = IntegerField(
        _l("Links to follow in a row"),
        [Optional(), NumberRange(0, 1000, _l("Please enter a number from 0 to 1000, or nothing."))],
        description=_l("0: the start addresses alone; 1: also what they link to. Empty: no limit."),
    )
    max_pages = IntegerField(
        _l("Pages in one run"),
        [Optional(), NumberRange(1, 1_000_000_000, _l("Please enter a number from 1, or nothing."))],
        description=_l("The run ends after so many. Empty: no limit."),
    )

    strategy = SelectField(
        _l("Order"),
        choices=[
            SelectChoice(Strategy.BREADTH_FIRST.value, _l("Near the start first (breadth-first)")),
            SelectChoice(Strategy.DEPTH_FIRST.value, _l("Along each path first (depth-first)")),
            SelectChoice(Strategy.BEST_FIRST.value, _l("Most promising first (best-first)")),
        ],
    )
    render = SelectField(
        _l("Pages made by scripts"),
        choices=[
            SelectChoice(RenderMode.AUTO.value, _l("Open a browser for pages that need it")),
            SelectChoice(RenderMode.ALWAYS.value, _l("Open every page in a browser (slow)")),
            SelectChoice(RenderMode.NEVER.value, _l("Never open a browser")),
        ],
    )
    delay_s = FloatField(
        _l("Seconds between two requests"),
        [Optional(), NumberRange(0, 86_400, _l("Please enter a number of seconds from 0 to 86400, or nothing."))],
        description=_l("To one host. Empty: one second, or what the site's robots.txt asks for."),
    )
    headers = LinesField(
        _l("Extra request headers"), description=_l("One a line: Name: value. For sites that want a cookie or a token.")
    )
    proxy = StringField(
        _l("Outgoing proxy"), [Length(max=500)], description=_l("http://host:port or socks5h://host:port. Empty: none.")
    )
    allow_private = LinesField(
        _l("Private addresses that may be crawled"),
        description=_l("host:port, one a line. For a site inside your own network; anything else private is refused."),
    )

    def validate_seeds(self, field: LinesField) -> None:
        _check_count(field)
        if not field.lines:
            raise ValidationError(_("Please enter at least one address, such as https://www.example.cn/."))
        for seed in field.lines:
            try:
                normalize(seed)
            except BadUrl as exc:
                raise ValidationError(
                    _("“%(url)s” cannot be crawled: an address begins with http:// or https://.", url=seed[:200])
                ) from exc

    def validate_hosts(self, field: LinesField) -> None:
        _check_lines(field, _HOST_PATTERN, _("“%(line)s” is not a host; write www.example.cn, without http://."))

    def validate_include(self, field: LinesField) -> None:
        _check_patterns(field)

    def validate_exclude(self, field: LinesField) -> None:
        _check_patterns(field)

    def validate_headers(self, field: LinesField) -> None:
        _check_count(field)
        for line in field.lines:
            name, colon, value = line.partition(":")
            if not colon or not _HEADER_NAME.fullmatch(name.strip()) or not value.strip().isprintable():
                raise ValidationError(_("“%(line)s” is not a header; write Name: value.", line=line[:200]))

    def validate_proxy(self, field: StringField) -> None:
        if field.data and not _PROXY.fullmatch(field.data.strip()):
            raise ValidationError(_("A proxy looks like http://host:port or socks5h://host:port."))

    def validate_allow_private(self, field: LinesField) -> None:
        _check_lines(
            field,
            re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s/:@]+):\d{1,5}"),
            _("“%(line)s” is not host:port, such as 10.0.0.5:80."),
        )

    def fill_from(self, settings: SiteSettings) -> None:
        """Show a site's settings."""
        scope = settings.scope
        for field, values in (
            (self.seeds, settings.seeds),
            (self.hosts, scope.hosts),
            (self.include, scope.include),
            (self.exclude, scope.exclude),
            (self.allow_private, settings.allow_private),
            (self.headers, (f"{name}: {value}" for name, value in settings.headers)),
        ):
            field.data = "\n".join(values)
        self.name.data, self.enabled.data, self.prefix.data = settings.name, settings.enabled, scope.prefix
        self.max_depth.data, self.max_pages.data = scope.max_depth, scope.max_pages
        self.strategy.data, self.render.data = settings.strategy.value, settings.render.value
        self.delay_s.data, self.proxy.data = settings.delay_s, settings.proxy or ""

    def to_settings(self) -> SiteSettings:
        """What was typed, after `validate`."""
        scope = SiteScope(
            hosts=tuple(host.lower() for host in self.hosts.lines),
            include=self.include.lines,
            exclude=self.exclude.lines,
            prefix=bool(self.prefix.data),
            max_depth=self.max_depth.data,
            max_pages=self.max_pages.data,
        )
        return SiteSettings(
            seeds=tuple(normalize(seed) for seed in self.seeds.lines),
            name=(self.name.data or "").strip(),
            scope=scope,
            strategy=Strategy(self.strategy.data),
            render=RenderMode(self.render.data),
            delay_s=self.delay_s.data,
            allow_private=tuple(host.lower() for host in self.allow_private.lines),
            headers=tuple(_header(line) for line in self.headers.lines),
            proxy=(self.proxy.data or "").strip() or None,
            enabled=bool(self.enabled.data),
        )


class ScheduleForm(FlaskForm):  # type: ignore[misc]
    """When a site is crawled by itself."""

    kind = SelectField(
        _l("Crawl"),
        choices=[
            SelectChoice("never", _l("Only when I start it")),
            SelectChoice("interval", _l("At an interval")),
            SelectChoice("cron", _l("By a timetable")),
        ],
    )
    every = FloatField(
        _l("Every"),
        [IfChosen("interval"), NumberRange(0.01, 10_000, _l("Please enter a number greater than nothing."))],
    )
    unit = SelectField(
        _l("Unit"),
        choices=[
            SelectChoice("60", _l("minutes")),
            SelectChoice("3600", _l("hours")),
            SelectChoice("86400", _l("days")),
        ],
        default="86400",
    )
    cron = StringField(
        _l("Timetable"),
        [Length(max=200)],
        description=_l("Five fields: minute, hour, day, month, weekday. 30 3 * * 1-5 is 3:30 from Monday to Friday."),
    )
    time_zone = StringField(
        _l("Time zone"), [Length(max=60)], description=_l("Such as Asia/Shanghai, Europe/Berlin or UTC.")
    )

    def validate_cron(self, field: StringField) -> None:
        if self.kind.data == "cron" and len((field.data or "").split()) != 5:
            raise ValidationError(_("A timetable has five fields, such as 30 3 * * *."))

    def validate_time_zone(self, field: StringField) -> None:
        if self.kind.data == "never":
            return
        try:
            ZoneInfo((field.data or "").strip())
        except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
            raise ValidationError(_("There is no such time zone; write Asia/Shanghai, for example.")) from exc

    def fill_from(self, schedule: Schedule | None) -> None:
        """Show a site's schedule; None: it has none."""
        self.time_zone.data = schedule.time_zone if schedule else local_zone()
        if schedule is None:
            self.kind.data = "never"
        elif schedule.cron is not None:
            self.kind.data, self.cron.data = "cron", schedule.cron
        else:
            seconds = schedule.interval_s or 0.0
            unit = next(unit for unit in (86400, 3600, 60) if seconds % unit == 0 or unit == 60)
            self.kind.data, self.every.data, self.unit.data = "interval", _whole(seconds / unit), str(unit)

    def to_schedule(self) -> Schedule | None:
        """What was typed, after `validate`; None: no schedule."""
        zone = (self.time_zone.data or "").strip()
        if self.kind.data == "cron":
            return Schedule(cron=" ".join((self.cron.data or "").split()), time_zone=zone)
        if self.kind.data == "interval":
            return Schedule(interval_s=(self.every.data or 0) * float(self.unit.data), time_zone=zone)
        return None


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number


def _header(line: str) -> tuple[str, str]:
    name, _colon, value = line.partition(":")
    return name.strip(), value.strip()


def _check_count(field: LinesField) -> None:
    if len(field.lines) > _MAX_LINES:
        raise ValidationError(_("Too many lines; at most %(most)d.", most=_MAX_LINES))


def _check_lines(field: LinesField, form: re.Pattern[str], complaint: str) -> None:
    _check_count(field)
    for line in field.lines:
        if not form.fullmatch(line):
            raise ValidationError(complaint % {"line": line[:200]})


def _check_patterns(field: LinesField) -> None:
    _check_count(field)
    for line in field.lines:
        if not line.startswith(("/", "*")):
            raise ValidationError(_("“%(line)s” is not a path; it begins with / or *.", line=line[:200]))
