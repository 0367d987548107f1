"""Starting a JupyterLab server and driving its notebooks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import nbformat
from playwright.sync_api import Page

START_TIMEOUT_S = 60.0
KERNEL_TIMEOUT_MS = 180_000  # the first kernel of a fresh checkout compiles the simulator
#: JupyterLab's commands, from the page: the server is started with --expose-app-in-browser
RUN_COMMAND = "([name, args]) => window.jupyterapp.commands.execute(name, args)"
KERNEL_IDLE = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
#: JupyterLab removes its splash screen twice, and fails, when a second one begins before the first has faded
NO_SPLASH = "!document.getElementById('jupyterlab-splash')"
CELLS_DONE = """() => {
    const cells = [...window.jupyterapp.shell.currentWidget.content.widgets].filter(c => c.model.type === 'code');
    return cells.every(c => c.model.executionCount !== null || c.model.sharedModel.getSource().trim() === '');
}"""
CELL_ERRORS = """() => [...window.jupyterapp.shell.currentWidget.content.widgets]
    .filter(c => c.model.type === 'code')
    .flatMap(c => c.model.outputs.toJSON())
    .filter(output => output.output_type === 'error')
    .map(output => `${output.ename}: ${output.evalue}`)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A running server: where it listens, where its notebooks lie, where its log is."""

    port: int
    folder: Path
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_until_up(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the first answer."""
        end = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end and process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/api", timeout=5):
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"JupyterLab did not start:\n{self.log.read_text()[-2000:]}")

    def write(self, name: str, *cells: str) -> Path:
        """Make a notebook of code cells."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        path = self.folder / name
        nbformat.write(notebook, path)
        return path

    def open(self, page: Page, name: str) -> None:
        """Show a notebook alone (no side bars) and wait for its kernel."""
        page.goto(f"{self.url}/doc/tree/{name}?reset")
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=KERNEL_TIMEOUT_MS)
        page.wait_for_function(KERNEL_IDLE, timeout=KERNEL_TIMEOUT_MS)

    def command(self, page: Page, name: str, **arguments: object) -> None:
        """Run a command of JupyterLab by its id."""
        page.evaluate(RUN_COMMAND, [name, arguments])

    def run_all(self, page: Page, name: str) -> None:
        """Open a notebook, run all its cells and wait until they are done; a cell's error is ours."""
        self.open(page, name)
        self.command(page, "notebook:run-all-cells")
        page.wait_for_function(CELLS_DONE, timeout=KERNEL_TIMEOUT_MS)
        page.wait_for_function(KERNEL_IDLE, timeout=KERNEL_TIMEOUT_MS)
        errors = page.evaluate(CELL_ERRORS)
        assert errors == [], errors

    def use_theme(self, page: Page, theme: str) -> None:
        """Switch to "light" or "dark"."""
        page.wait_for_function(NO_SPLASH)
        self.command(page, "apputils:change-theme", theme=f"JupyterLab {theme.capitalize()}")
        page.wait_for_function(f"document.body.dataset.jpThemeLight === '{str(theme == 'light').lower()}'")
        page.wait_for_function(NO_SPLASH)

    def close(self, page: Page) -> None:
        """Stop the kernel of the notebook that is shown."""
        self.command(page, "kernelmenu:shutdown")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def server_command(lab: Lab) -> list[str]:
    """The command line of a server that only this machine reaches."""
    return [
        *(sys.executable, "-m", "jupyterlab", "--allow-root", "--no-browser", "--expose-app-in-browser"),
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={lab.port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=",
        f"--ServerApp.root_dir={lab.folder}",
        "--LabApp.extension_manager=readonly",
    ]


def server_environment(folder: Path) -> dict[str, str]:
    """An environment in which nothing of the user's own Jupyter is read or written."""
    folders = {
        "JUPYTER_CONFIG_DIR": folder / "config",
        "JUPYTER_DATA_DIR": folder / "data",
        "JUPYTER_RUNTIME_DIR": folder / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": folder / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": folder / "workspaces",
        "IPYTHONDIR": folder / "ipython",
    }
    return os.environ | {name: str(path) for name, path in folders.items()} | {"JUPYTER_PREFER_ENV_PATH": "1"}


def write_settings(folder: Path) -> None:
    """Keep JupyterLab from asking for news in every fresh profile."""
    path = folder / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))
