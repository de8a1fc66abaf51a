"""`srifty watch`: show a run as it goes on, in the terminal or as a page."""

from __future__ import annotations

import os
import secrets
import time
from typing import Annotated

import typer
from rich.live import Live

from srifty.cli._json import dump
from srifty.cli._options import AsJson
from srifty.cli._run_show import picture
from srifty.cli._runs import RunPlace, find_run, tell
from srifty.cli._show import console_for_results
from srifty.cli._web import Door, PageServer, is_loopback
from srifty.cli.report import report_room, story_of
from srifty.cli.status import RunName, summary_of
from srifty.errors import InputError

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)

_TOKEN_VARIABLE = "SRIFTY_WATCH_TOKEN"  # noqa: S105 - the name of one
_LEAST_TOKEN = 16


@app.command(epilog="Example: srifty watch resnet50-20261130-101500 --web")
def watch(
    run: RunName,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    web: Annotated[
        bool, typer.Option("--web", help="Serve the run's page, which follows the run.")
    ] = False,
    host: Annotated[
        str, typer.Option(help="--web: the address; one that others reach needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="--web: 0: any free one.")] = 8717,
    as_json: AsJson = False,
) -> None:
    """Show a run as it goes on; Ctrl-C ends the showing, not the run.

    The page of --web can only be read. Where others reach its address, whoever asks must know a
    token: that in SRIFTY_WATCH_TOKEN, or one that is made up and shown.
    """
    place = find_run(run)
    if web:
        if once or as_json:
            raise InputError("serves a page; leave out --once and --json", "--web")
        _serve(place, Door(host, port, _token(host)))
        return
    document = summary_of(place)
    console = console_for_results()
    if as_json:
        typer.echo(dump(document))
        return
    if once or not console.is_terminal:
        console.print(picture(document))
        return
    with Live(picture(document), console=console, refresh_per_second=4) as live:
        while document["state"] in ("running", "without a controller"):
            time.sleep(every)
            document = summary_of(place)
            live.update(picture(document))


def _token(host: str) -> str:
    """Returns what whoever asks must know; empty where only this machine can ask."""
    token = os.environ.get(_TOKEN_VARIABLE, "")
    if token and not (len(token) >= _LEAST_TOKEN and token.isascii() and token.isalnum()):
        raise InputError(f"must be at least {_LEAST_TOKEN} letters and digits", _TOKEN_VARIABLE)
    if token or is_loopback(host):
        return token
    return secrets.token_hex(16)


def _serve(place: RunPlace, door: Door) -> None:
    room = report_room()
    room.run_page(story_of(place))  # what is wrong with the run is told before anything is served
    with PageServer(door, lambda nonce: room.run_page(story_of(place), nonce=nonce)) as server:
        tell(f"{place.path.name} is at {server.url}; Ctrl-C ends the showing, not the run")
        server.serve_forever(poll_interval=0.2)
