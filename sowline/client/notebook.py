"""`sowline.widget`: a view as a live grid in a notebook."""

from typing import TYPE_CHECKING

from sowline.client.local_view import LocalView
from sowline.errors import SowlineError
from sowline.version import installing

if TYPE_CHECKING:
    from sowline.client.grid_widget import GridWidget


def widget(view: LocalView) -> "GridWidget":
    """Return a live grid of a view that has not been entered yet; the widget enters it, and closes it at its end.

    Show it in JupyterLab or marimo; see docs/notebooks.md. Raises what the service refuses, and `not supported` if
    anywidget is not installed.
    """
    try:
        from sowline.client.grid_widget import GridWidget
    except ImportError as error:
        raise SowlineError(
            "not supported", f"expected anywidget, for notebooks: {installing('notebook')}"
        ) from error
    return GridWidget(view)
