"""The stack on this machine: one supervisor that runs node, crawler, indexer, scheduler, web and sample site.

The supervisor holds a lock in the home folder for its life and keeps `stack.json` beside it: who runs, and how it
goes. Others read that file. A child that ends is started again, later and later if it keeps ending; children end
when the supervisor is gone, and what is left over all the same is ended by the next `up`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
import os
import signal
import subprocess
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import structlog
from filelock import FileLock, Timeout

from crawler import database
from services import control
from services.config import Settings, child_environment, kept_port, make_home, port_is_free, python, web_port
from services.elastic import Elastic, ElasticUser, credentials
from services.ending import wait_until_gone
from services.errors import NodeError, SearchUnavailable, ServiceError, StackError
from services.node import LocalNode
from services.processes import ProcessName, open_crawl_database

Say = Callable[[str], None]

SAMPLE_PORTAL = Path(__file__).resolve().parents[1] / "portal.toml"
CHILDREN = (ProcessName.WEB, ProcessName.CRAWLER, ProcessName.INDEXER, ProcessName.SCHEDULER)
POLL_S = 0.25
NODE_POLL_S = 2.0
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
DOWN_TIMEOUT_S = 120.0
FIRST_BACK_OFF_S = 0.5
LONGEST_BACK_OFF_S = 30.0
LONG_LIFE_S = 60.0
"""A child that lived so long has nothing to do with how often it ended before."""
FAILING_AFTER = 4
"""Ends in a row after which a child counts as failing, and those who wait for the stack are told."""
LOG_BYTES = 10_000_000
LOG_FILES = 3
START_LOG = "start.log"
"""What the newest supervisor in the background printed; supervisor.log has all that any of them said, with times."""
SAMPLE_SITE_TIMEOUT_S = 15.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """A process that can be told from a later one with the same number."""

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> ProcessMark | None:
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.Error:
            return None

    def process(self) -> psutil.Process | None:
        """The process, if it still lives."""
        try:
            process = psutil.Process(self.pid)
            is_it = abs(process.create_time() - self.created) < 1.0 and process.status() != psutil.STATUS_ZOMBIE
            return process if is_it else None
        except psutil.Error:
            return None


@dataclass(frozen=True, slots=True)
class StackState:
    """What `stack.json` says."""

    supervisor: ProcessMark
    sample: bool
    ready: bool = False
    """All children run and the portal answers."""
    children: dict[str, ProcessMark] = field(default_factory=dict)
    failing: dict[str, str] = field(default_factory=dict)
    """Children that keep ending, and what they said last."""

    @property
    def is_up(self) -> bool:
        return self.supervisor.process() is not None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> StackState:
        return cls(
            supervisor=ProcessMark(**raw["supervisor"]),
            sample=bool(raw["sample"]),
            ready=bool(raw["ready"]),
            children={name: ProcessMark(**mark) for name, mark in raw["children"].items()},
            failing=dict(raw["failing"]),
        )


def read_state(settings: Settings) -> StackState | None:
    """What the supervisor wrote last, whether it still lives or not; None if there never was one."""
    try:
        return StackState.from_json(json.loads(_state_file(settings).read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def portal_address(settings: Settings) -> str:
    """Where a browser on this machine finds the portal."""
    host = settings.web_host
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{web_port(settings)}/"


def log_folder(settings: Settings) -> Path:
    return settings.home / "logs"


def prepare(settings: Settings, say: Say) -> None:
    """Make the home folder, the database and the first owner, whose password is said this once."""
    make_home(settings)
    with opened_database(settings) as engine:
        owner = control.ensure_owner(engine)
    if owner is not None:
        say(f"sign in to the admin as {owner.user.name} with the password {owner.password} (shown only now)")


@contextlib.contextmanager
def opened_database(settings: Settings) -> Iterator[database.Engine]:
    """The migrated crawl database, closed at the end."""
    engine = open_crawl_database(settings)
    try:
        yield engine
    finally:
        engine.dispose()


def ensure_up(settings: Settings, say: Say, sample: bool = False) -> bool:
    """Have the stack running in the background, and ready; False if it was up already. Raises StackError."""
    if settings.is_run_by_others:
        return False
    prepare(settings, say)
    with FileLock(settings.home / "up.lock"):  # Of several at once one starts it, and the others wait.
        return _ensure_up(settings, say, sample)


def _ensure_up(settings: Settings, say: Say, sample: bool) -> bool:
    state = read_state(settings)
    if state is not None and state.is_up:
        if sample and not state.sample:
            raise StackError("the stack is up without the sample site; run `plumbline down`, then this again")
        wait_until_ready(settings, state.supervisor)
        return False
    say("starting the stack in the background; it stays up until `plumbline down`")
    started = _spawn_supervisor(settings, sample)
    try:
        wait_until_ready(settings, started)
    except BaseException:
        if (process := started.process()) is not None:
            process.terminate()
        raise
    return True


def wait_until_ready(settings: Settings, supervisor: ProcessMark) -> StackState:
    """Wait until the supervisor says that all runs. Raises StackError with what it said last if it ends before."""
    deadline = time.monotonic() + settings.node_start_timeout_s + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        state = read_state(settings)
        if state is not None and state.supervisor == supervisor:
            raise_if_failing(settings, state)
            if state.ready and _has_node(settings):
                return state
        if supervisor.process() is None:
            if state is not None and state.is_up:  # Somebody else's was first.
                supervisor = state.supervisor
                continue
            raise StackError(_last_words(log_folder(settings) / START_LOG) or "the stack ended while starting")
        time.sleep(POLL_S)
    raise StackError(f"the stack did not become ready in time; see {log_folder(settings)}")


def _has_node(settings: Settings) -> bool:
    """Whether Elasticsearch is there; the supervisor takes a moment to see that it was killed."""
    return bool(settings.elasticsearch_url) or LocalNode(settings).process() is not None


def raise_if_failing(settings: Settings, state: StackState) -> None:
    """Raise StackError if a process of the stack keeps ending."""
    for name, words in state.failing.items():
        raise StackError(f"the {name} keeps ending: {words} (see {log_folder(settings) / f'{name}.log'})")


def wait_until_idle(settings: Settings, engine: database.Engine) -> None:
    """Wait until all that was crawled is searchable. Raises StackError if the stack ends or fails meanwhile."""
    while not (control.is_idle(engine) and _is_refreshed(settings)):
        state = read_state(settings)
        if state is None or not state.is_up:
            raise StackError("the stack was stopped before everything was indexed")
        raise_if_failing(settings, state)
        time.sleep(POLL_S)


def _is_refreshed(settings: Settings) -> bool:
    """Have Elasticsearch show all that is indexed; False while it is away."""
    try:
        with Elastic(credentials(settings, ElasticUser.WRITER), settings.index_prefix) as elastic:
            elastic.refresh()
    except SearchUnavailable:
        return False
    return True


def down(settings: Settings, say: Say) -> bool:
    """Stop the stack and its node, and end what is left of an earlier one; False if nothing ran."""
    state = read_state(settings)
    found = False
    if state is not None and (supervisor := state.supervisor.process()) is not None:
        found = True
        say("stopping the stack")
        supervisor.terminate()
        for process in wait_until_gone([supervisor], DOWN_TIMEOUT_S):
            process.kill()
    found = end_left_overs(settings) or found
    node = LocalNode(settings)
    if node.process() is not None:
        say("stopping Elasticsearch")
    return node.stop() or found


def end_left_overs(settings: Settings) -> bool:
    """End the children of a supervisor that was killed, whole trees of them; False if there were none."""
    state = read_state(settings)
    if state is None or state.is_up:
        return False
    alive = [process for mark in state.children.values() if (process := mark.process()) is not None]
    trees = [*alive]
    for process in alive:
        with contextlib.suppress(psutil.Error):
            trees += process.children(recursive=True)
    _end(trees)
    return bool(alive)


class Supervisor:
    """Runs the stack in this process until it is told to stop."""

    def __init__(self, settings: Settings, say: Say, sample: bool = False) -> None:
        self._settings = settings
        self._tell = say
        self._history = _rotated(log_folder(settings) / "supervisor.log", "%(asctime)sZ %(message)s")
        self._sample = sample
        self._node = LocalNode(settings, self._say)
        self._owns_node = False
        self._node_is_well = True
        self._stop = threading.Event()
        # The sample site before the crawler that visits it.
        names = (ProcessName.SAMPLE_SITE, *CHILDREN) if sample else CHILDREN
        self._children = [Child(name, settings, self._say, self._write_state) for name in names]
        self._writing = threading.Lock()
        self._ready = False
        mark = ProcessMark.of(os.getpid())
        assert mark is not None  # it is this very process
        self._mark = mark

    def run(self) -> None:
        """Start everything, keep it running, and stop what was started at SIGTERM or SIGINT.

        Raises StackError if the stack is up already or cannot be started.
        """
        lock = FileLock(self._settings.home / "stack.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise StackError(f"the stack is up already: {portal_address(self._settings)}") from None
        with lock:
            self._take_signals()
            self._clear_up()
            self._write_state()
            try:
                self._start()
                self._watch()
            finally:
                self._end()

    def _say(self, line: str) -> None:
        self._tell(line)
        self._history.emit(logging.makeLogRecord({"msg": line}))

    def _clear_up(self) -> None:
        """After a supervisor that was killed: its children are ended, its node is taken over."""
        state = read_state(self._settings)
        if state is None or state.is_up:
            return
        self._say(f"the stack was not stopped in good order: its supervisor, process {state.supervisor.pid}, is gone")
        end_left_overs(self._settings)
        self._owns_node = True

    def _take_signals(self) -> None:
        def stop(_number: int, _frame: FrameType | None) -> None:
            if self._stop.is_set():
                return
            self._stop.set()
            # Waits for the node or the portal end at once; the watching loop sees the event.
            if not self._ready:
                raise KeyboardInterrupt

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)

    def _start(self) -> None:
        self._check_ports()
        self._owns_node = self._owns_node or self._node.process() is None
        writer = self._node.ensure_running()
        with Elastic(writer, self._settings.index_prefix) as elastic:
            elastic.ensure_indices()
        for child in self._children:
            child.start()
            if child.name is ProcessName.SAMPLE_SITE:
                self._wait_for_sample_site()
        self._wait_for_portal()
        if self._sample:
            self._start_sample_crawl()
        self._ready = True
        self._write_state()
        address = portal_address(self._settings)
        self._say(f"search page: {address}")
        self._say(f"admin:       {address}admin/")

    def _check_ports(self) -> None:
        """A port that is taken is said before anything is started."""
        checked = [("the portal", self._settings.web_host, web_port(self._settings), "PLUMBLINE_WEB_PORT")]
        if self._sample:
            sample_port = kept_port(self._settings, "sample")
            checked.append(("the sample site", "127.0.0.1", sample_port, str(self._settings.home / "ports.json")))
        for what, host, port, where in checked:
            if not port_is_free(port, host):
                raise StackError(f"port {port} for {what} is taken by another program: end it, or change it in {where}")

    def _wait_for_sample_site(self) -> None:
        """Give it a moment, so that the crawler need not try its first pages twice."""
        address = f"http://127.0.0.1:{kept_port(self._settings, 'sample')}/"
        deadline = time.monotonic() + SAMPLE_SITE_TIMEOUT_S
        while not _answers(address) and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def _wait_for_portal(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not _answers(portal_address(self._settings) + "healthz"):
            for child in self._children:
                child.tend()
                if child.is_failing:
                    raise StackError(f"the {child.name} keeps ending: {child.last_words}")
            if time.monotonic() > deadline:
                raise StackError(f"the portal does not answer; see {log_folder(self._settings) / 'web.log'}")
            time.sleep(POLL_S)

    def _start_sample_crawl(self) -> None:
        from services import portal

        file = portal.read_portal_file(SAMPLE_PORTAL, f"127.0.0.1:{kept_port(self._settings, 'sample')}")
        with opened_database(self._settings) as engine:
            for site_id in portal.apply(engine, file):
                control.start(engine, site_id, "command line")
        self._say("crawling the sample site")

    def _watch(self) -> None:
        """Until told to stop: start children and the node again when they end; say when the sample can be found."""
        keeper = threading.Thread(target=self._keep_node, name="node", daemon=True)
        keeper.start()
        announcer = threading.Thread(target=self._announce, name="announcer", daemon=True)
        announcer.start()
        while not self._stop.wait(POLL_S):
            for child in self._children:
                child.tend()

    def _keep_node(self) -> None:
        if self._settings.elasticsearch_url:
            return
        while not self._stop.wait(NODE_POLL_S):
            if self._node.process() is not None:
                continue
            self._say("Elasticsearch has ended; starting it again")
            self._note_node(is_well=False)
            try:
                self._node.ensure_running()
            except NodeError as exc:
                self._say(str(exc))
                self._stop.wait(LONGEST_BACK_OFF_S)
                continue
            self._owns_node = True
            self._note_node(is_well=True)
            self._say("Elasticsearch answers again")

    def _note_node(self, is_well: bool) -> None:
        self._node_is_well = is_well
        self._write_state()

    def _announce(self) -> None:
        """Say once when everything that there is to crawl can be found."""
        try:
            with opened_database(self._settings) as engine:
                while not control.is_idle(engine):
                    if self._stop.wait(1.0):
                        return
            with Elastic(credentials(self._settings, ElasticUser.WRITER), self._settings.index_prefix) as elastic:
                elastic.refresh()
                pages = elastic.count()
        except ServiceError as exc:
            log.warning("cannot tell whether all is indexed", error=str(exc))
            return
        if pages:
            self._say(f"all {pages} pages can be found: {portal_address(self._settings)}")

    def _end(self) -> None:
        self._stop.set()
        self._ready = False
        self._say("stopping")
        for child in self._children:
            child.terminate()
        for child in self._children:
            child.wait()
        if self._owns_node and not self._settings.elasticsearch_url:
            self._node.stop()
        _state_file(self._settings).unlink(missing_ok=True)
        self._say("stopped")

    def _write_state(self) -> None:
        """Say how it goes; a full disk keeps others from knowing, but nothing from running."""
        with self._writing:
            try:
                self._write()
            except OSError as exc:
                log.warning("cannot write the stack's state", error=str(exc))

    def _write(self) -> None:
        state = StackState(
            supervisor=self._mark,
            sample=self._sample,
            ready=self._ready and self._node_is_well,
            children={child.name.value: child.mark for child in self._children if child.mark is not None},
            failing={child.name.value: child.last_words for child in self._children if child.is_failing},
        )
        file = _state_file(self._settings)
        fresh = file.with_name(file.name + ".new")
        fresh.write_text(json.dumps(state.to_json(), indent=2))
        fresh.replace(file)


class Child:
    """One child process of the supervisor: started, watched, started again; its output goes to a rotated file."""

    def __init__(self, name: ProcessName, settings: Settings, say: Say, on_change: Callable[[], None]) -> None:
        self.name = name
        self.mark: ProcessMark | None = None
        self._settings = settings
        self._say = say
        self._on_change = on_change
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._start_again_at = 0.0
        self._ends_in_a_row = 0
        self._last_lines: deque[str] = deque(maxlen=1)
        self._output = _rotated(log_folder(settings) / f"{name}.log")
        self._reader: threading.Thread | None = None

    @property
    def is_failing(self) -> bool:
        return self._ends_in_a_row >= FAILING_AFTER

    @property
    def last_words(self) -> str:
        return self._last_lines[0] if self._last_lines else "it said nothing"

    def start(self) -> None:
        """Start it in a session of its own, so that Ctrl-C reaches the supervisor alone."""
        command = [python(), "-m", "services.command_line", "process", self.name.value, "--parent", str(os.getpid())]
        self._process = subprocess.Popen(
            command,
            env=child_environment(self._settings, {"PYTHONUNBUFFERED": "1"}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._started_at = time.monotonic()
        self.mark = ProcessMark.of(self._process.pid)
        self._reader = threading.Thread(target=self._keep_output, args=(self._process,), daemon=True)
        self._reader.start()
        self._on_change()

    def tend(self) -> None:
        """See whether it has ended, and start it again when it is time to."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._start_again_at:
                self.start()
            return
        status = self._process.poll()
        if status is None:
            if self._ends_in_a_row and now - self._started_at > LONG_LIFE_S:
                self._ends_in_a_row = 0
                self._on_change()
            return
        self._note_end(status, now)

    def terminate(self) -> None:
        """Ask it to end; it is not started again."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait(self) -> None:
        """Wait for its end, and help it along if it takes too long."""
        if self._process is not None:
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                log.warning("process does not end; killed", name=self.name.value)
            self._kill_group()
            self._process.wait()
        if self._reader is not None:
            self._reader.join(STOP_TIMEOUT_S)
        self._output.close()

    def _note_end(self, status: int, now: float) -> None:
        self._kill_group()
        self._process = None
        self.mark = None
        self._ends_in_a_row = 1 if now - self._started_at > LONG_LIFE_S else self._ends_in_a_row + 1
        back_off_s = min(LONGEST_BACK_OFF_S, FIRST_BACK_OFF_S * 2 ** (self._ends_in_a_row - 1))
        self._start_again_at = now + back_off_s
        how = f"was killed by signal {-status}" if status < 0 else f"ended with exit code {status}"
        self._say(f"the {self.name} {how}; starting it again (its log: {log_folder(self._settings)}/{self.name}.log)")
        self._on_change()

    def _kill_group(self) -> None:
        """What it started and left behind."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _keep_output(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                text = line.decode(errors="replace").rstrip()
                if text:
                    self._last_lines.append(text[:500])
                self._output.emit(logging.makeLogRecord({"msg": text}))


def _spawn_supervisor(settings: Settings, sample: bool) -> ProcessMark:
    command = [python(), "-m", "services.command_line", "up", *(["--sample"] if sample else [])]
    with (log_folder(settings) / START_LOG).open("wb") as output:
        process = subprocess.Popen(
            command,
            env=child_environment(settings, {"PYTHONUNBUFFERED": "1"}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    mark = ProcessMark.of(process.pid)
    if mark is None:
        raise StackError(_last_words(log_folder(settings) / START_LOG) or "the stack could not be started")
    return mark


def _state_file(settings: Settings) -> Path:
    return settings.home / "stack.json"


def _rotated(path: Path, form: str = "%(message)s") -> logging.Handler:
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=LOG_FILES, delay=True)
    formatter = logging.Formatter(form, "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    return handler


def _answers(url: str) -> bool:
    # No proxy of the environment stands between us and ourselves.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    alive = wait_until_gone(processes, STOP_TIMEOUT_S)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    wait_until_gone(alive, STOP_TIMEOUT_S)


def _last_words(path: Path) -> str:
    """What a process said last, without the name of the program before it."""
    with contextlib.suppress(OSError):
        lines = path.read_text(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("plumbline: ") if lines else ""
    return ""
