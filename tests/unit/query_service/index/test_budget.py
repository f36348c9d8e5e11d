"""The memory of all indexes: what goes when there is not enough of it."""

from sowline.model.path import Path, parse_path
from sowline_query_service.index.budget import Memory

A, B, C = map(parse_path, ("/a", "/b", "/c"))


class Topic:
    """The indexes of one topic: so many bytes each, and some that can't go."""

    def __init__(self, memory: Memory, fixed: int = 0) -> None:
        self.sizes: dict[Path, int] = {}
        self.alone: list[Path] = []
        self.fixed = fixed
        memory.add(self)

    @property
    def nbytes(self) -> int:
        """All of it."""
        return self.fixed + sum(self.sizes.values())

    def bytes_of(self, path: Path) -> int:
        """What one memo index takes."""
        return self.sizes[path]

    def drop(self, path: Path, *, was_alone: bool) -> None:
        """Forget it."""
        del self.sizes[path]
        if was_alone:
            self.alone.append(path)


def made(memory: Memory, topic: Topic, **sizes: int) -> None:
    """Make memo indexes, one after the other."""
    for name, size in sizes.items():
        path = parse_path("/" + name)
        topic.sizes[path] = size
        memory.use(topic, [path])
        memory.make_room()


def test_within_the_limit_nothing_goes() -> None:
    """The limit itself is allowed."""
    memory = Memory(100)
    topic = Topic(memory)
    made(memory, topic, a=60, b=40)
    assert (memory.nbytes, topic.sizes.keys()) == (100, {A, B})


def test_the_least_recently_used_goes_first() -> None:
    """Whichever was made first; and no more of them than have to."""
    memory = Memory(100)
    topic = Topic(memory)
    made(memory, topic, a=40, b=40)
    memory.use(topic, [A])
    made(memory, topic, c=30)
    assert topic.sizes.keys() == {A, C}
    assert topic.alone == []


def test_topics_share_the_memory() -> None:
    """What one topic uses seldom makes room for another's."""
    memory = Memory(100)
    one, two = Topic(memory), Topic(memory)
    made(memory, one, a=50)
    made(memory, two, a=60)
    assert (one.sizes, two.sizes) == ({}, {A: 60})


def test_what_is_too_large_alone_is_reported() -> None:
    """All others have gone before it, and in vain."""
    memory = Memory(100)
    one, two = Topic(memory), Topic(memory)
    made(memory, one, a=50)
    made(memory, two, b=101)
    assert (one.sizes, two.sizes) == ({}, {})
    assert (one.alone, two.alone) == ([], [B])


def test_what_can_not_go_leaves_less_room() -> None:
    """Hash indexes are counted, though they stay."""
    memory = Memory(100)
    topic = Topic(memory, fixed=80)
    made(memory, topic, a=30)
    assert (topic.sizes, topic.alone, memory.nbytes) == ({}, [A], 80)
    memory.make_room()
    assert memory.nbytes == 80


def test_growth_counts() -> None:
    """An index that has grown makes others go, as a new one does."""
    memory = Memory(100)
    topic = Topic(memory)
    made(memory, topic, a=40, b=40)
    topic.sizes[B] = 70
    memory.make_room()
    assert topic.sizes == {B: 70}


def test_no_memory_leaves_no_room() -> None:
    """A limit of 0 allows nothing."""
    memory = Memory(0)
    topic = Topic(memory)
    made(memory, topic, a=1)
    assert (topic.sizes, topic.alone) == ({}, [A])
