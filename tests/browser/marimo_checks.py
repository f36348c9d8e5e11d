"""A widget in a real marimo, in a real browser: live, and gone when its cell runs again.

`make test-all` runs this: marimo is installed at the first run.
"""

import os
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from sowline.runtime.ports import HOST, free_port
from tests.browser.notebook_programs import notebook_program, running_program
from tests.browser.seen import SECONDS_MAX, browser
from tests.integration.served import Served, serve
from tests.waiting import wait_for

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.timeout(600)]

RUN = "Control+Enter"
LIVE = "sowline_subscriptions_live"
NOTEBOOK = """import marimo

app = marimo.App()


@app.cell
def _():
    import sowline

    view = sowline.Client({url!r}).local_view({topic!r}, order_by="/id")
    sowline.widget(view)
    return


if __name__ == "__main__":
    app.run()
"""


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A materializer and a query service."""
    with serve(kafka, tmp_path_factory.mktemp("served"), {"orders": {"key": "/id"}}) as served:
        yield served


@contextmanager
def marimo(notebook: Path) -> Iterator[str]:
    """Run marimo, which edits the notebook; yield its URL. The widgets are those of this environment."""
    program = notebook_program("marimo", "marimo==0.25.2")
    paths = (sysconfig.get_path("purelib"), str(Path(__file__).parents[2]))
    variables = {"PYTHONPATH": os.pathsep.join(paths), "HOME": str(notebook.parent)}
    port = free_port()
    options = ("edit", "--headless", "--no-token", "--skip-update-check", f"--host={HOST}", f"--port={port}")
    url = f"http://{HOST}:{port}"
    command = [str(program), *options, str(notebook)]
    with running_program(command, variables, notebook.parent / "marimo.log", f"{url}/health"):
        yield url


def press(page: Page, key: str) -> None:
    """Press a key in the only cell."""
    page.locator(".cm-content").first.click()
    page.keyboard.press(key)


@pytest.fixture
def page() -> Iterator[Page]:
    """A page. The first of marimo is slow."""
    with browser() as chromium, chromium.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(SECONDS_MAX * 1000)
        yield page


def test_a_grid_is_live_until_its_cell_runs_again(page: Page, served: Served, tmp_path: Path) -> None:
    """Changes appear, and the rest by scrolling; the page asks nobody else. Each run ends the one before."""
    orders = served["orders"]
    orders.write(*({"id": number, "qty": number * 10} for number in range(1, 41)))
    notebook = tmp_path / "orders.py"
    notebook.write_text(NOTEBOOK.format(url=served.query.url, topic=orders.name))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    grid = page.locator(".sowline-grid")
    with marimo(notebook) as url:
        page.goto(url)
        press(page, RUN)
        expect(grid.locator("tbody tr")).to_have_count(14)
        orders.write({"id": 2, "qty": 777})
        expect(grid).to_contain_text("777")
        grid.evaluate("grid => { grid.scrollTop = grid.scrollHeight }")
        expect(grid).to_contain_text("400")

        press(page, RUN)
        expect(grid).to_contain_text("777")
        expect(grid).to_have_count(1)
        wait_for(lambda: served.query.metric(LIVE) == 1, "the subscription of the run before to end")
    beyond = [one for one in asked if not one.startswith((url, "data:", "blob:"))]
    assert beyond == []
