"""Whether records that were stored under earlier options are still valid under later ones."""

from sowline.codecs.errors import incompatible_schema
from sowline.codecs.fix.options import FixOptions
from sowline.codecs.schema import Schema
from sowline.codecs.schemaless import excerpt
from sowline.errors import SowlineError


def check_compatible(later: Schema, earlier: Schema) -> None:
    """Raise `incompatible schema` unless later options only name more fields, and more members of groups."""
    if earlier.type != later.type:
        raise _incompatible("the message type", f"{earlier.type}, got {later.type}")
    old, new = FixOptions(earlier), FixOptions(later)
    # A text of a record may contain the new one: it could not be written any more
    # (test_records_keep_their_separator).
    if new.separator != old.separator:
        raise _incompatible("the separator", f"{excerpt(old.separator)}, got {excerpt(new.separator)}")
    for tag, name in old.names.items():
        if new.names.get(tag) != name:
            raise _incompatible(f"the name of {tag}", f"{excerpt(name)}, got {excerpt(new.name_of(tag))}")
    # A new pair, too: records have the length, which no message may have beside its data
    # (test_options_may_change_as_long_as_records_stay_right).
    for tag in old.data.keys() | new.data.keys():
        if old.data.get(tag) != new.data.get(tag):
            raise _incompatible(
                f"the data field of {excerpt(tag)}", f"{old.data.get(tag)}, got {new.data.get(tag)}"
            )
    _check_groups(old, new)


def _check_groups(old: FixOptions, new: FixOptions) -> None:
    """Check each group by tags: names may be new."""
    before, after = _by_tags(old), _by_tags(new)
    for message_type in sorted(before.keys() | after.keys()):
        # A MsgType without groups of its own has those of all others, and one that now gets its own must keep them
        # (test_options_may_change_as_long_as_records_stay_right).
        one, other = before.get(message_type, before[""]), after.get(message_type, after[""])
        for count in sorted(one.keys() | other.keys()):
            if count not in one or count not in other:
                got = "none" if count in one else "one"
                raise _incompatible(f"whether {count} is the count of a group", f"it, got {got}")
            if missing := one[count] - other[count]:
                raise _incompatible(
                    f"the members of the group {count}", f"{min(missing)} among them, got none"
                )


def _by_tags(options: FixOptions) -> dict[str, dict[str, set[str]]]:
    """Return the members of groups by MsgType and tag of the count."""
    tag = options.tag_of
    return {
        message_type: {tag(count): set(map(tag, members)) for count, members in groups.items()}
        for message_type, groups in options.tables.items()
    }


def _incompatible(what: str, how: str) -> SowlineError:
    return incompatible_schema(f"expected {what} as in the options under which records are stored: {how}")
