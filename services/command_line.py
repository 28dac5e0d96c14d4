"""The program `plumbline`: what its commands take and print. The work is done elsewhere.

What people read goes to standard error while a command works, results to standard output; with `--json` standard
output holds JSON alone. Modules that take long to import are imported by the commands that need them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from services.errors import ServiceError

if TYPE_CHECKING:
    from services import control
    from services.config import Settings
    from services.elastic import Elastic, ElasticUser
    from services.search.records import SearchHit, Snippet

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def cli() -> None:
    """Crawl, archive and search the sites of one subject."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command. What goes wrong is one sentence on standard error: exit code 1, or 2 for a wrong command line."""
    from crawler.errors import CrawlerError

    try:
        cli.main(args=None if arguments is None else list(arguments), prog_name="plumbline", standalone_mode=False)
    except click.UsageError as exc:
        exc.show()
        sys.exit(2)
    except click.ClickException as exc:
        _fail(exc.format_message())
    except (ServiceError, CrawlerError) as exc:
        _fail(str(exc))
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except BrokenPipeError:  # Whoever reads our output has enough.
        sys.stderr.close()
        sys.exit(1)
    sys.exit(0)


def _fail(sentence: str) -> NoReturn:
    click.echo(f"plumbline: {sentence}", err=True)
    sys.exit(1)


def _say(line: str) -> None:
    click.echo(line, err=True)


def _settings() -> Settings:
    from services import logs
    from services.config import load_settings

    settings = load_settings()
    logs.configure("warning", settings.log_format, sys.stderr)
    return settings


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


# The stack.


@cli.command()
@click.option("--detach", is_flag=True, help="Run in the background, until `plumbline down`.")
@click.option("--sample", is_flag=True, help="Also serve and crawl the sample portal.")
@click.option(
    "--until-idle",
    is_flag=True,
    help="Run in the background, and return when all that is to be crawled can be found.",
)
def up(detach: bool, sample: bool, until_idle: bool) -> None:
    """Run the whole stack on this machine: in the foreground until Ctrl-C, which stops it."""
    from services import stack

    settings = _settings()
    if not detach and not until_idle:
        stack.prepare(settings, click.echo)
        stack.Supervisor(settings, click.echo, sample).run()
        return
    if not stack.ensure_up(settings, click.echo, sample):
        click.echo("the stack is up already")
    click.echo(f"search page: {stack.portal_address(settings)}")
    if until_idle:
        with stack.opened_database(settings) as engine:
            stack.wait_until_idle(settings, engine)
            _raise_if_refused(engine)
        click.echo("all that was crawled can be found")


@cli.command()
def down() -> None:
    """Stop the stack on this machine, its Elasticsearch node too."""
    from services import stack

    if not stack.down(_settings(), click.echo):
        click.echo("nothing was running")


@cli.command()
@json_option
def status(as_json: bool) -> None:
    """Show what runs, and how the crawls go."""
    from services import status as report

    found = report.read_status(_settings())
    if as_json:
        _print_json(found.to_json())
    else:
        click.echo(found.to_text(), nl=False)


@cli.command()
@json_option
def doctor(as_json: bool) -> None:
    """Look for what is wrong with the set-up, and say what to do; exit code 1 if anything is."""
    from services import doctor as examination

    findings = examination.examine(_settings())
    if as_json:
        _print_json({"findings": [finding.to_json() for finding in findings]})
    else:
        for finding in findings:
            click.echo(finding.to_text())
    sys.exit(0 if all(finding.is_good for finding in findings) else 1)


@cli.group()
def node() -> None:
    """The local Elasticsearch node alone."""


@node.command("start")
def node_start() -> None:
    """Start the node, if it does not run, and leave it running."""
    from services.node import LocalNode

    user = LocalNode(_settings(), click.echo).ensure_running()
    click.echo(f"Elasticsearch: {user.url}")


@node.command("stop")
def node_stop() -> None:
    """Stop the node; its data stay."""
    from services import stack
    from services.node import LocalNode

    settings = _settings()
    state = stack.read_state(settings)
    if state is not None and state.is_up:
        raise click.ClickException("the stack is up and needs its node; stop all of it by: plumbline down")
    click.echo("stopped" if LocalNode(settings).stop() else "nothing was running")


@cli.command(hidden=True)
@click.argument("name", type=click.Choice(["crawler", "indexer", "scheduler", "web", "sample-site"]))
@click.option("--parent", type=int, help="Number of the process without which this one ends.")
def process(name: str, parent: int | None) -> None:
    """Be one process of the stack."""
    from services.config import load_settings

    settings = load_settings()  # first, since what is wrong with them is quickly said
    from services.processes import ProcessName, run_process

    run_process(ProcessName(name), settings, parent)


# Crawling.


@cli.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--max-pages", type=click.IntRange(min=1), help="Pages fetched at most in this run.")
@click.option("--depth", type=click.IntRange(min=0), help="Links followed in a row at most.")
@click.option("--prefix", is_flag=True, help="Only under the folder of the URL.")
@click.option("--render", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
@click.option(
    "--strategy",
    type=click.Choice(["breadth-first", "depth-first", "best-first"]),
    help="Default: best-first with a topic, else breadth-first.",
)
@click.option(
    "--topic",
    "topic_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="What to look for; see docs/topics.md.",
)
@click.option("--allow-private", is_flag=True, help="The URLs' own hosts may have private addresses.")
@json_option
def crawl(
    urls: tuple[str, ...],
    max_pages: int | None,
    depth: int | None,
    prefix: bool,
    render: str,
    strategy: str | None,
    topic_file: Path | None,
    allow_private: bool,
    as_json: bool,
) -> None:
    """Crawl the sites of some URLs, and wait until their pages can be found.

    A URL's site is its host and port; it keeps what else its owner has set for it. The stack is started in the
    background if it is not up, and stays up until `plumbline down`.
    """
    from crawler.records import RenderMode, Strategy
    from crawler.topic import load_topic
    from services import crawl_request, stack

    options = crawl_request.CrawlOptions(
        max_pages=max_pages,
        max_depth=depth,
        prefix=prefix,
        render=RenderMode(render),
        strategy=None if strategy is None else Strategy(strategy),
        allow_private=allow_private,
        topic=None if topic_file is None else load_topic(topic_file),
    )
    settings = _settings()
    with stack.opened_database(settings) as engine:
        sites = crawl_request.declare_sites(engine, urls, options)
        stack.ensure_up(settings, _say)
        report = crawl_request.run_crawl(settings, engine, sites, _say)
    if as_json:
        _print_json(report.summary.to_json())
    else:
        click.echo(crawl_request.summary_text(report.summary))
    if report.problem is not None:
        raise click.ClickException(report.problem)


def _raise_if_refused(engine: Any) -> None:
    from services import control
    from services.errors import StackError

    refused = control.refused_documents(engine, limit=1)
    if refused:
        raise StackError(f"not all pages could be indexed, for one {refused[0].url}: {refused[0].error}")


@cli.group()
def portal() -> None:
    """Sites, schedules and the portal's name as one file."""


@portal.command("apply")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def portal_apply(file: Path) -> None:
    """Make the portal what FILE says; sites that it does not name are left alone."""
    from services import portal as portal_file
    from services import stack

    settings = _settings()
    declared = portal_file.read_portal_file(file)
    with stack.opened_database(settings) as engine:
        portal_file.apply(engine, declared)
    click.echo(f"{declared.portal.name}: {len(declared.sites)} sites")


@portal.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
def portal_export(file: Path | None) -> None:
    """Write the portal and all its sites to FILE, or to standard output."""
    from services import portal as portal_file
    from services import stack

    with stack.opened_database(_settings()) as engine:
        text = portal_file.export(engine)
    _write(text, file)


def _write(text: str, file: Path | None) -> None:
    """To a file, or to standard output."""
    if file is None:
        click.echo(text, nl=False)
        return
    try:
        file.write_text(text, "utf-8")
    except OSError as exc:
        raise click.ClickException(f"{file} cannot be written: {exc.strerror}") from exc


# Searching.


@cli.command()
@click.argument("query")
@click.option("--page", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--size", type=click.IntRange(1, 100), default=10, show_default=True)
@click.option("--site", help="Only pages of the site with this key.")
@json_option
def search(query: str, page: int, size: int, site: str | None, as_json: bool) -> None:
    """Search the pages, as the portal does."""
    from services import stack
    from services.elastic import ElasticUser
    from services.search.records import SearchQuery
    from services.search.search import search as ask

    settings = _settings()
    with _elastic(settings, ElasticUser.READER) as elastic:
        found = ask(elastic, SearchQuery(text=query, page=page, size=size, site=site))
    if as_json:
        base = stack.portal_address(settings)
        _print_json(found.to_json(lambda capture_id: f"{base}snapshot/{capture_id}"))
        return
    note = f" ({found.note.replace('_', ' ')})" if found.note else ""
    click.echo(f"{found.total} page{'' if found.total == 1 else 's'}, {found.took_ms} ms{note}")
    for number, hit in enumerate(found.hits, (page - 1) * size + 1):
        _print_hit(number, hit)


def _print_hit(number: int, hit: SearchHit) -> None:
    day = f"  {hit.published_at:%Y-%m-%d}" if hit.published_at else ""
    click.echo(f"\n{number}. {_highlighted(hit.title)}\n   {hit.url}{day}")
    if hit.snippet:
        click.echo(f"   {_highlighted(hit.snippet)}")


def _highlighted(snippet: Snippet) -> str:
    return "".join(click.style(part.text, bold=True) if part.hit else part.text for part in snippet)


@cli.command()
@click.argument("text")
@click.option("--mode", type=click.Choice(["index", "search"]), default="index", show_default=True)
@click.option("--analyzer", help="Show the whole chain of an analyzer of the index instead.")
@json_option
def analyze(text: str, mode: str, analyzer: str | None, as_json: bool) -> None:
    """Show how Elasticsearch takes TEXT apart: the jieba tokenizer's own output, or an analyzer's."""
    from services.elastic import ElasticUser, IndexName

    settings = _settings()
    if analyzer is None:
        with _elastic(settings, ElasticUser.READER) as elastic:
            tokens = elastic.tokenize(text, f"jieba_{mode}")
    else:
        with _elastic(settings, ElasticUser.WRITER) as elastic:
            elastic.ensure_indices([IndexName.PAGES])
            tokens = elastic.analyze(text, analyzer)
    if as_json:
        shown = [{"token": t.text, "start": t.start, "end": t.end, "position": t.position} for t in tokens]
        _print_json({"tokens": shown})
        return
    for token in tokens:
        click.echo(f"{token.position:>5}  {token.start:>5}-{token.end:<5}  {token.text}")


def _elastic(settings: Settings, user: ElasticUser) -> Elastic:
    """A client, with the node started if it has to be."""
    from services.elastic import Elastic, credentials
    from services.node import LocalNode

    local_node = LocalNode(settings, lambda line: _say(f"{line}; it runs until `plumbline down`"))
    local_node.ensure_running()
    return Elastic(credentials(settings, user), settings.index_prefix)


# Kibana.


@cli.group()
def kibana() -> None:
    """Data views, saved searches and dashboards for Kibana."""


@kibana.command("import")
@click.option("--wait", "within_s", type=click.FloatRange(min=0), default=300.0, show_default=True, help="Seconds.")
def kibana_import(within_s: float) -> None:
    """Wait for the Kibana of KIBANA_URL, and import them; doing it again brings them up to date."""
    from services.kibana import importing

    settings = _settings()
    target = importing.Kibana(importing.access(settings))
    target.wait_until_ready(within_s, _say)
    click.echo(f"{target.bring_in(settings.index_prefix)} objects are in Kibana")


@kibana.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
def kibana_export(file: Path | None) -> None:
    """Write them to FILE, or to standard output, as Kibana's own import page takes them."""
    from services.kibana.objects import saved_objects, to_ndjson

    _write(to_ndjson(saved_objects(_settings().index_prefix)), file)


# Pages.


@cli.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--url", required=True, help="Where the page was.")
@click.option("--content-type", default="", help="The Content-Type header that it came with.")
@json_option
def extract(file: Path, url: str, content_type: str, as_json: bool) -> None:
    """Show the document that a saved page gives."""
    from datetime import UTC, datetime

    from crawler.urls import normalize
    from extractor.errors import ExtractorError
    from extractor.extract import extract as read_document
    from extractor.records import Source

    try:
        source = Source(normalize(url), file.read_bytes(), content_type, datetime.now(UTC))
        document = read_document(source)
    except (ExtractorError, OSError) as exc:
        raise click.ClickException(f"{file}: {exc}") from exc
    shown = document.to_json()
    if as_json:
        _print_json(shown)
        return
    for key, value in shown.items():
        if value and key not in ("body", "links"):
            click.echo(f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    click.echo(f"links: {len(document.links)}\n\n{document.body}")


@cli.command()
@click.argument("url")
@json_option
def explain(url: str, as_json: bool) -> None:
    """Show everything that is known of a URL, and what comes next."""
    from services import control, explanation, stack

    with stack.opened_database(_settings()) as engine:
        history = control.explain(engine, url)
    if as_json:
        _print_json(explanation.explanation_json(history))
    else:
        click.echo(explanation.explanation_text(history), nl=False)


@cli.command()
@click.option("--site", help="Only the site with this key.")
@click.option("--refused", is_flag=True, help="Only pages that were refused.")
@click.option("--dry-run", is_flag=True, help="Only say how many pages it would be.")
def reindex(site: str | None, refused: bool, dry_run: bool) -> None:
    """Extract and index the archived pages again, without fetching them."""
    from crawler import database
    from crawler.archive import captures
    from services import stack

    settings = _settings()
    with stack.opened_database(settings) as engine:
        site_id = _site(engine, site).site_id if site is not None else None
        with database.write(engine) as conn:
            pages = captures.requeue(conn, site_id=site_id, refused_only=refused)
            if dry_run and (transaction := conn.get_transaction()) is not None:
                transaction.rollback()
    if dry_run:
        click.echo(f"{pages} pages would be indexed again")
        return
    click.echo(f"{pages} pages wait to be indexed again")
    if pages:
        stack.ensure_up(settings, _say)


def _site(engine: Any, key: str) -> control.Site:
    from services import control
    from services.errors import NotFound

    found = control.find_site(engine, key)
    if found is None:
        known = ", ".join(site.key for site in control.list_sites(engine)) or "none yet"
        raise NotFound(f"there is no site {key}; there are: {known}")
    return found


@cli.group()
def archive() -> None:
    """The WARC files of all captures."""


@archive.command("verify")
@json_option
def archive_verify(as_json: bool) -> None:
    """Prove every capture against its bytes; exit code 1 if one is lost or wrong.

    A page whose newest capture is damaged is fetched whole by the next crawl of its site.
    """
    from crawler.archive.archive import Archive, Severity
    from services import stack

    settings = _settings()
    errors = notes = 0
    damaged: set[int] = set()
    with stack.opened_database(settings) as engine:
        archived = Archive(settings.archive_folder, engine)
        for finding in archived.verify():
            errors += finding.severity is Severity.ERROR
            notes += finding.severity is Severity.NOTE
            where = finding.path if finding.offset is None else f"{finding.path} at {finding.offset}"
            if not as_json:
                click.echo(f"{finding.severity}: {where}: {finding.message}")
            if finding.severity is Severity.ERROR and finding.capture_id is not None:
                damaged.add(finding.capture_id)
        anew = archived.fetch_anew(damaged) if damaged else 0
    if anew:
        _say(f"{anew} pages will be fetched whole by the next crawl of their sites")
    if as_json:
        _print_json({"errors": errors, "notes": notes})
    else:
        click.echo(f"{errors} errors, {notes} notes")
    sys.exit(1 if errors else 0)


@archive.command("export")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--site", help="Only the site with this key.")
def archive_export(folder: Path, site: str | None) -> None:
    """Copy captures into new WARC files in FOLDER."""
    from crawler.archive.archive import Archive
    from services import stack

    settings = _settings()
    with stack.opened_database(settings) as engine:
        site_id = _site(engine, site).site_id if site is not None else None
        for file in Archive(settings.archive_folder, engine).export(folder, site_id):
            click.echo(file)


@archive.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--site", required=True, help="Key of the site that gets the captures.")
def archive_import(files: tuple[Path, ...], site: str) -> None:
    """Make captures of a site out of WARC files; they are indexed like crawled pages."""
    from crawler.archive.archive import Archive
    from services import stack

    settings = _settings()
    with stack.opened_database(settings) as engine:
        site_id = _site(engine, site).site_id
        for file in files:
            report = Archive(settings.archive_folder, engine).import_warc(file, site_id)
            click.echo(f"{file}: {report.captures} captures, {report.skipped} records left out")
            if report.problem:
                raise click.ClickException(f"{file}: {report.problem}; what came before is imported")


if __name__ == "__main__":
    main()
