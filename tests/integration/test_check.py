"""`sowline check` against real systems: it finds nothing in sound ones, and what a proxy does to messages by name."""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest
from click.testing import CliRunner

from sowline.check.history import HistoryBegin
from sowline.check.judge.verdict import Guarantee
from sowline.check.topics import CheckedFanout, WorkloadTopics
from sowline.cli import main
from tests.integration.checked import CheckedSystem, checked_system, sentences
from tests.integration.relayed_fanouts import relayed
from tests.integration.services import Service
from tests.integration.wire_mistakes import CHOSEN, FANOUT_MISTAKES, MISTAKES, OneMistake, WireMistake
from tests.waiting import wait_for
from tests.wire_proxy import proxied

ALWAYS = {
    Guarantee.SNAPSHOT,
    Guarantee.PAGES,
    Guarantee.GROUPS,
    Guarantee.DOCUMENTS,
    Guarantee.NO_GAP,
    Guarantee.NO_REPEAT,
    Guarantee.ORDER,
    Guarantee.FOCUS,
    Guarantee.DELTAS,
    Guarantee.RESUME,
    Guarantee.READ_YOUR_WRITES,
    Guarantee.MONOTONIC_READS,
    Guarantee.CONFLATION,
    Guarantee.CHECKSUM,
    Guarantee.VIEWS,
    Guarantee.FANOUTS,
    Guarantee.EXPIRY,
    Guarantee.ONE_EFFECT,
    Guarantee.ANSWERS,
}
"""What each run of some seconds checks; deletes by filter are rare."""


@pytest.fixture(scope="module")
def checked(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedSystem]:
    """A materializer, a query service, the views and the fanouts."""
    with checked_system(kafka, tmp_path_factory.mktemp("checked")) as made:
        yield made


@pytest.fixture(scope="module")
def sharded(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedSystem]:
    """A gateway over three shards."""
    with checked_system(kafka, tmp_path_factory.mktemp("sharded"), shards=3) as made:
        yield made


def test_a_sound_system(checked: CheckedSystem, tmp_path: Path) -> None:
    """The command checks all guarantees, finds none broken, and judges the history again with the same result."""
    history = str(tmp_path / "run.jsonl")
    prefix = checked.topics.records.removesuffix("-records")
    (faults := tmp_path / "faults").write_text(f"echo ran >> {tmp_path}/ran\n\nfalse\n")
    run = ["check", "--url", checked.front.url, "--prefix", prefix, "--seconds", "6", "--seed", "1"]
    done = CliRunner().invoke(main, [*run, "--history", history, "--faults", str(faults)])
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.output.splitlines()[1:]]
    assert [row[-1] for row in rows] == ["kept"] * len(Guarantee), done.output
    again = CliRunner().invoke(main, ["check", "--judge", history])
    assert (again.exit_code, again.output) == (0, done.output)
    assert (tmp_path / "ran").read_text().startswith("ran\n")


def test_a_system_without_the_topics(checked: CheckedSystem) -> None:
    """The error says how to define them."""
    done = CliRunner().invoke(main, ["check", "--url", checked.front.url, "--prefix", "none"])
    assert done.exit_code == 1
    assert (
        "found no none-documents, none-expiring, none-records, none-totals: add what `sowline check --definitions`"
        in done.output
    )


def test_killed_services(checked: CheckedSystem) -> None:
    """Services are killed while the load goes on: writes may be lost, guarantees are not."""
    killed = (checked.fanout, checked.front, checked.materializer, checked.views)
    asyncio.run(run_until_checked(checked, 9.0, ALWAYS - {Guarantee.VIEWS}, killed))


def test_a_gateway(sharded: CheckedSystem) -> None:
    """Its clients have the same guarantees."""
    asyncio.run(run_until_checked(sharded, 5.0, ALWAYS))


def test_a_killed_gateway_and_shard(sharded: CheckedSystem) -> None:
    """The gateway is killed, and a node with a third of the records: clients notice nothing but a pause."""
    wanted = ALWAYS - {Guarantee.VIEWS}
    asyncio.run(run_until_checked(sharded, 9.0, wanted, (sharded.nodes[1], sharded.front)))


async def run_until_checked(
    checked: CheckedSystem, seconds: float, wanted: AbstractSet[Guarantee], services: Sequence[Service] = ()
) -> None:
    """Run checks until they have checked all that is wanted; services are killed meanwhile, one after the other.

    On a busy machine, one run has too few reads for that.
    """
    seen: set[Guarantee] = set()
    while not wanted <= seen:
        task = asyncio.create_task(checked.run(7, seconds))
        killed = 0
        for service in services:
            killed += await asyncio.to_thread(kill_in_a_while, service, checked, task.done)
        verdict, _ = await task
        assert killed or not services
        assert not verdict.violations, sentences(verdict)
        seen |= {*verdict.checked}


def kill_in_a_while(service: Service, checked: CheckedSystem, is_over: Callable[[], bool]) -> bool:
    """Kill a service once the load has moved on, and start it again; return False if the load has ended before."""
    topic, cluster = checked.topics.records, checked.system.cluster
    goal = sum(cluster.ends(topic, range(3)).values()) + 50
    wait_for(lambda: is_over() or sum(cluster.ends(topic, range(3)).values()) > goal, "the load to move on")
    if is_over():
        return False
    service.kill()
    service.start().wait_ready()
    return True


@pytest.mark.parametrize(
    "mistake",
    MISTAKES if os.environ.get("MISTAKES") == "all" else CHOSEN,
    ids=lambda mistake: mistake.name,
)
def test_a_mistake_at_the_wire(checked: CheckedSystem, mistake: WireMistake) -> None:
    """The checker names the guarantee that it breaks."""
    meddler = OneMistake(mistake)

    async def run() -> set[Guarantee]:
        async with proxied(checked.front.url, meddler) as url:
            while True:
                verdict, _ = await checked.run(11, 3.0, url, answer_seconds=mistake.answer_seconds)
                # On a busy machine, a run may have too few of the messages that the mistake is made in.
                if meddler.has_effect:
                    return {*verdict.broken}

    broken = asyncio.run(run())
    assert mistake.breaks & broken, broken


@pytest.mark.parametrize(
    "mistake",
    FANOUT_MISTAKES if os.environ.get("MISTAKES") == "all" else FANOUT_MISTAKES[:2],
    ids=lambda mistake: mistake.name,
)
def test_a_mistake_of_a_fanout(checked: CheckedSystem, mistake: WireMistake) -> None:
    """The checker finds it in the Kafka topic."""
    meddler = OneMistake(mistake)
    with relayed(checked, meddler) as topics:
        verdict, (begin, *_) = asyncio.run(
            checked.run(11, 3.0, topics=topics, answer_seconds=mistake.answer_seconds)
        )
    assert meddler.made
    assert Guarantee.FANOUTS in verdict.broken, f"{verdict.checked} {begin} {sentences(verdict)}"


def test_a_system_without_the_fanout_service(checked: CheckedSystem, tmp_path: Path) -> None:
    """The command says that it has not checked fanouts, and why; a judgment of the history says so, too."""
    history, prefix = str(tmp_path / "run.jsonl"), checked.topics.records.removesuffix("-records")
    checked.fanout.stop()
    run = ["check", "--url", checked.front.url, "--prefix", prefix, "--seconds", "1", "--timeout", "5"]
    done = CliRunner().invoke(main, [*run, "--history", history])
    checked.fanout.start().wait_ready()
    assert done.exit_code == 0, done.output
    named = ", ".join(one.output for one in checked.topics.fanouts)
    assert done.output.splitlines()[-1] == (
        f"fanouts were not checked: expected changes of the checker's records in {named} within 5 s, got none:"
        " start the fanout service"
    )
    assert next(line.split()[1] for line in done.output.splitlines() if line.startswith("fanouts ")) == "0"
    again = CliRunner().invoke(main, ["check", "--judge", history])
    assert (again.exit_code, again.output) == (0, done.output)


def test_a_system_without_the_fanouts(checked: CheckedSystem) -> None:
    """The history tells that Kafka has no topics of theirs."""

    class OtherTopics(WorkloadTopics):
        @property
        def fanouts(self) -> tuple[CheckedFanout, ...]:
            return tuple(one._replace(name=f"{one.name}-none") for one in super().fanouts)

    topics = OtherTopics(*checked.topics)
    verdict, (begin, *_) = asyncio.run(checked.run(5, 1.0, topics=topics))
    missing = ", ".join(sorted(one.output for one in topics.fanouts))
    assert isinstance(begin, HistoryBegin)
    assert begin.unchecked_fanouts.startswith(
        f"expected the Kafka topics of the checker's fanouts, found no {missing}: add"
    )
    assert not verdict.violations
    assert not verdict.checked[Guarantee.FANOUTS]
