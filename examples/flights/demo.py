"""The main demo: starts the whole system, replays the flights through it, and checks that nothing was lost."""

import asyncio
import json
import os
import sys
import tempfile
import time
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console

from examples.flights.board import AIRPORTS
from examples.flights.counter import ChangeCounter
from examples.flights.data import Airport, Fact, feed_of, flights_csv, read_airports, read_flights
from examples.flights.disturb import Disturbances
from examples.flights.feed import Feed, SliceWriter
from examples.flights.interrupt import SIGNALS, cancel, stopped_by_interrupt
from examples.flights.landing import LandingPage, Outcome
from examples.flights.processes import Child, DemoError, child
from examples.flights.run import TOPIC, Run
from sowline import Publisher, SowlineError
from sowline.config.kafka_options import kafka_config
from sowline.config.topics import load_topics
from sowline.kafka.admin import ensure_topics
from sowline.runtime.java import find_java
from sowline.runtime.local_kafka import LocalKafka

TOPICS_FILE = Path(__file__).with_name("topics.yaml")
PIPELINE_FILE = TOPICS_FILE.with_name("pipeline.yaml")
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options with which Java starts sooner: a demo lasts for minutes, and needs no second compiler."""
PUBLISHER = "flights"
"""The name under which the pipeline writes."""
INTERRUPTED = "interrupted: the last flights were not compared"
EXIT_LOST = 1
EXIT_INTERRUPTED = 130
MAX_SPEED = "max"


class Options(NamedTuple):
    """The options of the demo; None stands for no end, full speed, and a directory that is removed."""

    seconds: float | None
    airport: str
    speed: float | None
    data_dir: Path | None
    opens_browser: bool = False


async def run_demo(options: Options, console: Console) -> int:
    """Run the demo and return its exit code: 0, or 1 if anything was lost or did not work."""
    until = None if options.seconds is None else time.monotonic() + options.seconds
    try:
        async with AsyncExitStack() as stack:
            run, children, page = await _start(options, console, stack)
            try:
                with stopped_by_interrupt(console) as stop:
                    problems = await _watched(run, children, until, stop, console)
            except asyncio.CancelledError:
                summary = run.summary()
                page.finish(Outcome(INTERRUPTED, None, summary.rows(), latencies=summary.latencies()))
                raise
            summary = run.summary()
            verdict = "; ".join(problems) or summary.verdict()
            moment = None if problems else run.moment
            page.finish(Outcome(verdict, not problems, summary.rows(), moment, summary.latencies()))
    except (DemoError, SowlineError) as error:
        problems = [str(error)]
    for problem in problems:
        console.print(problem, highlight=False, markup=False, soft_wrap=True)
    if not problems:
        console.print(verdict, highlight=False, soft_wrap=True)
    return EXIT_LOST if problems else 0


async def _start(
    options: Options, console: Console, stack: AsyncExitStack
) -> tuple[Run, list[Child], LandingPage]:
    """Start everything, and return the run, the processes that it needs, and the page that shows it."""
    archive, airports = flights_csv(), read_airports()
    find_java()
    directory = stack.enter_context(_directory(options.data_dir))
    began = time.monotonic()

    def step(sentence: str) -> None:
        console.print(f"{time.monotonic() - began:4.1f} s  {sentence}", highlight=False)

    os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_START)
    step("starting Kafka …")
    loading = asyncio.create_task(asyncio.to_thread(_load, archive))
    kafka = LocalKafka(directory / "kafka")
    stack.callback(kafka.stop)
    await asyncio.to_thread(_start_kafka, kafka, airports)
    # Both at once: Spark's start takes longest, and needs no more than the topics.
    step("starting the materializer, the query service, the views, and Spark …")
    page = LandingPage()
    command = _up(directory, kafka.bootstrap, page.origin)
    system = await stack.enter_async_context(child("sowline up", command, directory / "sowline.log"))
    feed = Feed(await loading, SliceWriter(directory / "feed"), options.speed)
    feed.begin()
    locations = {"FLIGHTS_FEED": str(directory / "feed"), "FLIGHTS_CHECKPOINT": str(directory / "checkpoint")}
    command = [
        sys.executable,
        "-m",
        "sowline",
        "pipeline",
        "run",
        "--kafka",
        kafka.bootstrap,
        str(PIPELINE_FILE),
    ]
    pipeline = await stack.enter_async_context(
        child("the pipeline", command, directory / "pipeline.log", locations)
    )
    at = json.loads(await system.first_line())
    step("the query service is ready; waiting for Spark …")
    await pipeline.first_line()
    step(f"running: {at['url']} (Kafka at {kafka.bootstrap})")
    counter = stack.enter_context(ChangeCounter(kafka.bootstrap, TOPIC, PUBLISHER))
    run = Run(options.airport, at["url"], feed, airports, counter, console)
    await stack.enter_async_context(page.served(at["url"], run, Disturbances(run, system.pid, kafka)))
    console.print(f"to watch it in a browser: {page.link}", soft_wrap=True)
    if options.opens_browser and _has_browser():
        webbrowser.open(page.link)
    return run, [system, pipeline], page


def _start_kafka(kafka: LocalKafka, airports: Sequence[Airport]) -> None:
    """Start the broker, create the topics, which the pipeline needs, and write the airports."""
    kafka.start()
    config, topics = kafka_config(kafka.bootstrap), load_topics(TOPICS_FILE)
    ensure_topics(config, topics)
    with closing(Publisher(config, topics)) as publisher:
        for airport in airports:
            publisher.publish("airports", airport._asdict())


def _has_browser() -> bool:
    """Whether a browser with windows can be opened: one for terminals would take this one."""
    is_seen = sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    return is_seen and sys.stdout.isatty()


async def _watched(
    run: Run, children: Sequence[Child], until: float | None, stop: asyncio.Event, console: Console
) -> list[str]:
    """Replay, judge and print the summary, while everything is watched; returns what is wrong, as sentences."""
    problems: list[str] = []
    try:
        async with asyncio.TaskGroup() as tasks:
            watchers = [
                tasks.create_task(run.watch()),
                *(tasks.create_task(part.must_live()) for part in children),
            ]
            try:
                await run.replay(until, stop)
            except DemoError as stalled:
                problems.append(str(stalled))
            problems += await run.losses()
            for watcher in watchers:
                watcher.cancel()
    except* (DemoError, SowlineError) as group:
        problems += [str(error) for error in _leaves(group)]
    finally:
        for line in run.summary().lines():
            console.print(line, highlight=False)
    return problems


def _leaves(group: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _load(archive: Path) -> list[Fact]:
    return feed_of(read_flights(archive))


def _up(directory: Path, kafka: str, origin: str) -> list[str]:
    locations = ["--config", str(TOPICS_FILE), "--data-dir", str(directory / "sowline")]
    options = [*locations, "--port", "0", "--kafka", kafka, "--origin", origin]
    return [sys.executable, "-m", "sowline", "up", *options]


@contextmanager
def _directory(given: Path | None) -> Iterator[Path]:
    """Yield an empty directory: the one given, which stays, or one that is removed at the end."""
    if given is None:
        with tempfile.TemporaryDirectory(prefix="sowline-demo-", ignore_cleanup_errors=True) as made:
            yield Path(made)
        return
    given.mkdir(parents=True, exist_ok=True)
    if any(given.iterdir()):
        raise DemoError(f"expected an empty directory for this run, got {given}")
    yield given.resolve()


async def _interruptible(options: Options, console: Console) -> int:
    """Run the demo so that SIGINT, SIGTERM and SIGHUP end it in good order."""
    task = asyncio.create_task(run_demo(options, console))
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, cancel, task)
    try:
        return await task
    except asyncio.CancelledError:
        console.print(f"{INTERRUPTED}; every process is stopped")
        return EXIT_INTERRUPTED


def read_speed(context: click.Context | None, parameter: click.Parameter | None, text: str) -> float | None:
    """Return how many simulated seconds pass in one real second; None is as fast as it goes (`max`)."""
    if text == MAX_SPEED:
        return None
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise click.BadParameter(
            f"expected a number above 0, or {MAX_SPEED}; got {text!r}", context, parameter
        )
    return factor


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(min=1), help="End by itself after this time, start-up included."
)
@click.option(
    "--airport",
    type=click.Choice(AIRPORTS),
    default="JFK",
    show_default=True,
    help="Whose board in the terminal.",
)
@click.option(
    "--speed",
    callback=read_speed,
    default="3600",
    show_default=True,
    help="Simulated seconds a second, or max.",
)
@click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="An empty directory; kept."
)
@click.option("--browser/--no-browser", default=True, help="Open the page in a browser, where there is one.")
def main(
    seconds: float | None, airport: str, speed: float | None, data_dir: Path | None, browser: bool
) -> None:
    """Replay the flights of 2013 through Spark and Kafka, and show who is late.

    Exits with 0, with 1 if anything was lost or did not work, with 130 if interrupted.
    """
    options = Options(seconds, airport, speed, data_dir, browser)
    try:
        sys.exit(asyncio.run(_interruptible(options, Console())))
    except FileNotFoundError as error:
        raise click.ClickException(str(error)) from None
