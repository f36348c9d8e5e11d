"""Checks of the access file: whether a view shows a role data that it may not read. This module sends no requests.

Rights to a view are its own: a role may read a view without the topic that it is computed from.
"""

from collections.abc import Iterator

from sowline.cli.doctor.finding import Finding, count
from sowline.config.topics import Topics
from sowline.config.views import ComputedTopic, Join
from sowline.errors import SowlineError
from sowline.language.filter import ALL
from sowline.model.path import Path
from sowline.serving.authorization.access_file import Access
from sowline.serving.authorization.entitlements import Entitlement, Entitlements, check_fields, rights_of


def access_findings(where: str, access: Access, topics: Topics) -> Iterator[Finding]:
    """Yield the findings for each role alone, as if a user had no other."""
    yield Finding("access", "ok", where, "an access file", count(len(access.roles), "role"))
    for name, role in access.roles.items():
        read = rights_of({name: role}, [name]).read
        for view in (view for view in topics.computed if view.name in read):
            for topic, found in _unreadable(view, read).items():
                yield Finding(
                    "view_rights",
                    "warning",
                    f"role {name}",
                    f"the right to read what view {view.name} shows of {topic}",
                    found,
                    f"nothing, if the role may see it; otherwise take {view.name} from the role, or limit the right"
                    " to read it",
                )


def _unreadable(view: ComputedTopic, read: Entitlements) -> dict[str, str]:
    """Return the limits of the role's right to read, by topic, for the topics of which the view shows more."""
    found = {view.source: _readable_of_source(view, read)}
    for join in view.joins:
        found.setdefault(join.topic, _readable_of_joined(join, read))
    return {topic: limit for topic, limit in found.items() if limit}


def _readable_of_joined(join: Join, read: Entitlements) -> str:
    """Return the limit of the right to read a joined topic; empty if the role may read all of it."""
    if join.topic not in read:
        return f"no right to read {join.topic}"
    joined = read.of(join.topic)
    if joined.filter != ALL:
        return f"only records with {joined.filter.text}"
    return "" if joined.select is None else f"only the fields {joined.select.text}"


def _readable_of_source(view: ComputedTopic, read: Entitlements) -> str:
    """Return the limit of the right to read the source; empty if the view shows nothing beyond it."""
    if view.source not in read:
        return f"no right to read {view.source}"
    shown, source = read.of(view.name), read.of(view.source)
    if not _are_records_readable(view, shown, source):
        return f"only records with {source.filter.text}"
    if source.select is not None and not _are_fields_readable(view, shown, source):
        return f"only the fields {source.select.text}"
    return ""


def _are_records_readable(view: ComputedTopic, shown: Entitlement, source: Entitlement) -> bool:
    """Return whether the view, or the right to read it, is limited to records computed from readable ones.

    The source's filter in the view does that. In the right it does so only if a record of the view has the fields of
    the records that it is computed from.
    """
    if source.filter in (ALL, view.record_filter):
        return True
    return shown.filter == source.filter and all(_is_kept(view, path) for path in source.filter.paths)


def _is_kept(view: ComputedTopic, path: Path) -> bool:
    """Return whether a field of a record of the view is that field of all records that it is computed from."""
    if view.projected is None:
        return True
    is_shown = any(field.text == str(path) for field in view.projected.fields)
    return is_shown and (not view.grouping_paths or path in view.grouping_paths)


def _are_fields_readable(view: ComputedTopic, shown: Entitlement, source: Entitlement) -> bool:
    """Return whether the view is computed from readable fields, or shows these as they are."""
    if view.projected is None and shown.select != source.select:
        return False
    computed = () if view.projected is None else [field.expression for field in view.projected.fields]
    try:
        check_fields(source, view.record_filter or ALL, view.grouping_paths, computed)
    except SowlineError:
        return False
    return True
