"""`sowline top`: topics, partitions and services as they are now, refreshed each second."""

import contextlib
import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import click
import orjson

from sowline.cli.connection import USUAL_URL, ConnectionOptions, report, used_stack, with_connection
from sowline.cli.help import cli_command
from sowline.cli.http import get, served_topics
from sowline.cli.metrics_text import read_metrics
from sowline.cli.top.table import SORTS, Look, Looks, lines, table
from sowline.errors import SowlineError

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""Switch to the terminal's alternate screen without a cursor, and back."""

_HOME, _TO_LINE_END, _TO_END = "\x1b[H", "\x1b[K", "\x1b[J"


@cli_command(examples=("sowline top", "sowline top --once --sort lag"))
@click.option(
    "--url",
    "-u",
    "urls",
    multiple=True,
    envvar="SOWLINE_URL",
    show_default=f"those of the running `sowline up`, or {USUAL_URL}",
    help="The URL of a service of any kind; repeatable.",
)
@click.option(
    "--sort", type=click.Choice(SORTS), default="topic", show_default=True, help="Sort topics by this column."
)
@click.option(
    "--every", type=click.FloatRange(0.1, 60), default=1.0, show_default=True, help="Seconds between updates."
)
@click.option("--once", is_flag=True, help="Print one table and exit; the default without a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each update.")
@with_connection
def top(
    urls: tuple[str, ...], connection: ConnectionOptions, sort: str, every: float, once: bool, as_json: bool
) -> None:
    """Show topics, partitions and services as they are now; `q` ends it, `s` sorts by the next column.

    Owners of partitions are known if the materializers are among the services.
    """
    urls = urls or found_urls()
    with ThreadPoolExecutor(len(urls)) as pool, contextlib.suppress(KeyboardInterrupt):
        looks = _looks(pool, urls, connection)
        if as_json:
            _print_json(looks, sort, every, once)
        elif once or not (sys.stdin.isatty() and sys.stdout.isatty()):
            before = next(looks)
            time.sleep(every)
            click.echo("\n".join(lines(table(before, next(looks), sort), 1000, sort)))
        else:
            _show(looks, sort, every)


def found_urls() -> tuple[str, ...]:
    """Return the URLs of the running `sowline up`, and report which one it is; without one, the usual URL."""
    stack = used_stack()
    if stack is None:
        return (USUAL_URL,)
    report(stack)
    return stack.urls


def _looks(pool: ThreadPoolExecutor, urls: tuple[str, ...], connection: ConnectionOptions) -> Iterator[Looks]:
    """Look at all services at each step of the iteration."""
    while True:
        taken = time.monotonic()
        # All at once, because one service that does not answer would hold up the numbers of the others.
        yield Looks(taken, tuple(pool.map(look_at, urls, repeat(connection))))


def look_at(url: str, connection: ConnectionOptions) -> Look:
    """Ask a service for its metrics, its health and its topics."""
    url = url.rstrip("/")
    try:
        paths = ("readyz", "metrics", "v1/topics")
        ready, metrics, topics = (get(f"{url}/{path}", connection) for path in paths)
        if metrics.status != 200:
            return Look(url, away=f"no service of Sowline: {metrics.status} at /metrics")
        numbers = read_metrics(metrics.body.decode())
        return Look(url, None, ready.sentence, numbers, served_topics(topics))
    except SowlineError as error:
        return Look(url, away=error.message)
    except ValueError as error:
        return Look(url, away=f"no service of Sowline: {error}")


def _print_json(looks: Iterator[Looks], sort: str, every_seconds: float, once: bool) -> None:
    before = next(looks)
    while True:
        time.sleep(every_seconds)
        now = next(looks)
        click.echo(orjson.dumps({"time": time.time(), **table(before, now, sort).fields()}))
        before = now
        if once:
            return


def _show(looks: Iterator[Looks], sort: str, every_seconds: float) -> None:
    """Draw one table after the other on the terminal until `q`."""
    with _screen():
        before, now, drawn = None, next(looks), time.monotonic()
        while True:
            _draw(lines(table(before, now, sort), shutil.get_terminal_size().columns, sort))
            key = _key(max(0.0, drawn + every_seconds - time.monotonic()))
            if key == "q":
                return
            if key == "s":
                sort = SORTS[(SORTS.index(sort) + 1) % len(SORTS)]
            elif not key:
                before, now, drawn = now, next(looks), time.monotonic()


@contextlib.contextmanager
def _screen() -> Iterator[None]:
    """Use the terminal's alternate screen, and read each key as it is pressed; restore the terminal afterwards."""
    was = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        sys.stdout.write(_ENTER)
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, was)


def _draw(text: list[str]) -> None:
    # One line less than the screen has: the break after its last line would scroll it.
    shown = text[: shutil.get_terminal_size().lines - 1]
    drawn = "".join(f"{line}{_TO_LINE_END}\r\n" for line in shown)
    sys.stdout.write(_HOME + drawn + _TO_END)
    sys.stdout.flush()


def _key(seconds: float) -> str:
    """Return the key that is pressed within this many seconds, or nothing; `q` at the end of the input."""
    if not select.select([sys.stdin], [], [], seconds)[0]:
        return ""
    # A key may send several bytes, and one of them alone need not be UTF-8.
    return os.read(sys.stdin.fileno(), 1).decode("latin-1") or "q"
