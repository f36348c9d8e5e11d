"""A widget in a real JupyterLab, in a real browser: live, silent in what is saved, and gone with its cell.

`make test-all` runs this: JupyterLab brings a hundred packages, which are installed here at the first run.
"""

import json
import os
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from playwright.sync_api import Locator, Page, expect

from sowline import Client
from sowline.runtime.ports import HOST, free_port
from tests.browser.notebook_programs import notebook_program, running_program
from tests.browser.seen import browser
from tests.integration.services import Service, System, system
from tests.waiting import program_until, wait_for

pytestmark = pytest.mark.needs("chromium")

USERS = ("root", "ada")
TOKENS = {user: f"sow_{user}_{uuid.uuid4().hex}" for user in USERS}
LAB_TOKEN = uuid.uuid4().hex
SECRET = "the name of a client"
LIVE = "sowline_subscriptions_live"

RUN = "notebook:run-cell-and-select-next"
READY = """() => {
  const app = window.jupyterapp;
  const session = app?.shell.currentWidget?.sessionContext;
  return app?.commands.hasCommand("notebook:run-cell-and-select-next") && session?.session?.kernel?.status === "idle";
}"""
"""Whether the notebook is open, and its kernel runs."""

SETTINGS = {
    # A notebook has the state of its widgets then.
    "@jupyter-widgets/jupyterlab-manager/plugin": {"saveState": True},
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}


class Desk(NamedTuple):
    """A topic of which `ada` may read some records and some fields, and a JupyterLab."""

    system: System
    query: Service
    topic: str
    page: Page
    directory: Path
    lab: str

    def publish(self, *records: dict[str, object]) -> None:
        """Write records."""
        with Client(self.query.url, kafka=self.system.kafka, token=TOKENS["root"]) as client:
            client.publish_all(self.topic, records)

    def clear(self) -> None:
        """Delete all records, and end the kernels of other tests."""
        with Client(self.query.url, kafka=self.system.kafka, token=TOKENS["root"]) as client:
            client.sow_delete(self.topic, filter="1=1")
            wait_for(lambda: not list(client.records(self.topic)), "the records of other tests to be deleted")
        self.page.evaluate("async () => { await window.jupyterapp?.serviceManager.sessions.shutdownAll() }")
        wait_for(lambda: self.query.metric(LIVE) == 0, "the subscriptions of other tests to end")

    def notebook(self, *cells: str) -> Path:
        """Write a notebook, open it, and run its first cell."""
        path = self.directory / f"{uuid.uuid4().hex}.ipynb"
        made: list[dict[str, object]] = [
            {
                "cell_type": "code",
                "id": str(at),
                "metadata": {},
                "outputs": [],
                "execution_count": None,
                "source": cell,
            }
            for at, cell in enumerate(cells)
        ]
        kernel = {"kernelspec": {"name": "sowline", "display_name": "sowline", "language": "python"}}
        path.write_text(json.dumps({"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}))
        self.page.goto(f"{self.lab}/lab/tree/{path.name}?reset&token={LAB_TOKEN}")
        self.page.wait_for_function(READY)
        self.run(RUN)
        return path

    def run(self, command: str) -> None:
        """Run a command of JupyterLab, as a menu or a key does."""
        self.page.evaluate("command => { jupyterapp.commands.execute(command) }", command)

    def widget(self, user: str) -> str:
        """Return a cell that shows a widget of a user."""
        return "\n".join(
            (
                "import os, sowline",
                f"client = sowline.Client({self.query.url!r}, token=os.environ['TOKEN_{user.upper()}'])",
                f"view = client.local_view({self.topic!r}, order_by='/id')",
                "sowline.widget(view)",
            )
        )

    def grid(self, number: int = 0) -> Locator:
        """What an output shows."""
        return self.page.locator(".sowline-grid").nth(number)

    def save(self, path: Path) -> str:
        """Save a notebook with the state of its widgets, and return what is saved."""
        self.run("docmanager:save")
        wait_for(lambda: "GridWidget" in path.read_text(), "the notebook to be saved")
        return path.read_text()


def write_access(path: Path, topic: str) -> None:
    """Write the access file."""
    some = {"topics": topic, "filter": "/desk = 'a'", "select": "[-/,+/id,+/qty]"}
    every = [{"topics": "^.*"}]
    tokens = [
        {"user": user, "sha256": sha256(TOKENS[user].encode()).hexdigest(), "roles": [user]} for user in USERS
    ]
    roles = {"ada": {"read": [some]}, "root": {"read": every, "write": every, "admin": True}}
    path.write_text(yaml.safe_dump({"tokens": tokens, "roles": roles}))


@contextmanager
def jupyter_lab(directory: Path) -> Iterator[str]:
    """Run JupyterLab; yield its URL. The kernel and the widgets are those of this environment."""
    for name, settings in SETTINGS.items():
        file = directory / "settings" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings))
    kernel = directory / "share" / "kernels" / "sowline" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel.write_text(json.dumps({"argv": command, "display_name": "sowline", "language": "python"}))
    (directory / "notebooks").mkdir()
    variables = {
        "JUPYTER_PATH": f"{directory / 'share'}{os.pathsep}{Path(sys.prefix, 'share', 'jupyter')}",
        "JUPYTERLAB_SETTINGS_DIR": str(directory / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(directory / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(directory / "config"),
        "JUPYTER_DATA_DIR": str(directory / "data"),
        "JUPYTER_RUNTIME_DIR": str(directory / "runtime"),
        "IPYTHONDIR": str(directory / "ipython"),
        **{f"TOKEN_{user.upper()}": token for user, token in TOKENS.items()},
    }
    port = free_port()
    options = (
        "--no-browser",
        "--allow-root",
        "--expose-app-in-browser",
        f"--port={port}",
        f"--IdentityProvider.token={LAB_TOKEN}",
    )
    where = f"--ServerApp.root_dir={directory / 'notebooks'}"
    command = [str(notebook_program("jupyter-lab", "jupyterlab==4.6.6")), *options, where]
    url = f"http://{HOST}:{port}"
    with running_program(command, variables, directory / "lab.log", f"{url}/api"):
        yield url


@pytest.fixture(scope="module")
def running(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Run all of it."""
    directory = tmp_path_factory.mktemp("notebook")
    topic = f"t{uuid.uuid4().hex[:12]}-orders"
    write_access(directory / "access.yaml", topic)
    with (
        system(kafka, directory, [{"name": topic, "key": "/id"}]) as made,
        jupyter_lab(directory) as lab,
        browser() as chromium,
        chromium.new_context() as context,
    ):
        made.service("materializer").start().wait_ready()
        query = made.service("query_service", access=directory / "access.yaml").start().wait_ready()
        page = context.new_page()
        yield Desk(made, query, topic, page, directory / "notebooks", lab)


@pytest.fixture
def desk(running: Desk) -> Desk:
    """No record is there, and no kernel."""
    running.clear()
    return running


def records(ids: Sequence[int], **fields: object) -> list[dict[str, object]]:
    """Return records."""
    return [{"id": id, "desk": "a", "qty": id * 10, "client": SECRET, **fields} for id in ids]


def test_a_grid_is_live_until_its_cell_is_deleted(desk: Desk) -> None:
    """Changes appear, also while a cell runs. The service has no subscription after the cell."""
    desk.publish(*records(range(1, 4)))
    done = desk.directory / "done"
    desk.notebook(desk.widget("root"), program_until(done))
    expect(desk.grid().locator("tbody tr")).to_have_count(3)
    desk.run(RUN)
    expect(desk.page.locator(".jp-InputPrompt").nth(1)).to_have_text("[*]:")
    for qty in range(700, 705):
        desk.publish({"id": 2, "desk": "a", "qty": qty, "client": SECRET})
        expect(desk.grid()).to_contain_text(str(qty))
    assert desk.query.metric(LIVE) == 1
    done.touch()
    desk.page.locator(".jp-InputPrompt").first.click()
    desk.run("notebook:delete-cell")
    expect(desk.grid()).to_have_count(0)
    wait_for(lambda: desk.query.metric(LIVE) == 0, "the subscription to end")


def test_what_is_saved_has_no_record_and_no_token(desk: Desk) -> None:
    """Neither do the outputs of a notebook that is saved with the state of its widgets."""
    desk.publish(*records(range(1, 4)))
    path = desk.notebook(desk.widget("root"))
    expect(desk.grid()).to_contain_text(SECRET)
    saved = desk.save(path)
    for secret in (SECRET, *TOKENS.values()):
        assert secret not in saved
    desk.page.reload()
    # Its kernel still runs: the page asks for the records again.
    expect(desk.grid()).to_contain_text(SECRET)


def test_two_outputs_of_one_widget(desk: Desk) -> None:
    """Each has its own rows; the subscription ends with the last of them."""
    desk.publish(*records(range(1, 101)))
    desk.notebook(desk.widget("root").replace("sowline.widget", "grid = sowline.widget") + "\ngrid", "grid")
    desk.run(RUN)
    for number in range(2):
        expect(desk.grid(number).locator("tbody tr")).to_have_count(14)
    desk.grid(1).evaluate("grid => { grid.scrollTop = grid.scrollHeight }")
    expect(desk.grid(1)).to_contain_text("1000")
    expect(desk.grid(0).locator("tbody tr").first.locator("td").first).to_have_text("1")


def test_a_role_that_may_see_a_part(desk: Desk) -> None:
    """Its grid has the fields and records of the role, in what is drawn and in what the page received."""
    desk.publish(*records(range(1, 4)), *records(range(4, 6), desk="b"))
    frames: list[str] = []
    desk.page.on(
        "websocket", lambda socket: socket.on("framereceived", lambda frame: frames.append(str(frame)))
    )
    desk.notebook(desk.widget("ada"))
    expect(desk.grid().locator("tbody tr")).to_have_count(3)
    expect(desk.grid().locator("th")).to_have_text(["id", "qty"])
    desk.publish({"id": 3, "desk": "b", "qty": 30, "client": SECRET})
    expect(desk.grid().locator("tbody tr")).to_have_count(2)
    received = "".join(frame.partition('"batches"')[2] for frame in frames)
    assert '"id"' in received
    for hidden in (SECRET, "client", "desk"):
        assert hidden not in received
