"""The entry point: finds the command, runs it, turns errors into messages and exit codes.

Exit codes: 0 done, 1 a fault of ours, 2 bad input, 3 no feasible plan, 4 a run ended without
finishing its job, 5 the cloud refused, 6 stopped by the money cap, 130 Ctrl-C (143 where a profile
is ended by SIGTERM).
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from srifty import __version__
from srifty.cli.start import EXIT_INTERRUPTED, ending_at_once
from srifty.errors import CloudRefused, InputError, SriftyError

# Name → what it does. The module of the same name holds the command and is imported when it runs.
COMMANDS = {
    "init": "Write a commented job file to start from.",
    "plan": "Find the VMs to rent for a job, or say why there are none.",
    "export": "Put a plan in the words of torchrun, Ray, Slurm, Kubernetes or SkyPilot.",
    "simulate": "Forecast one cluster configuration.",
    "compare": "Every method and baseline on one job, side by side.",
    "measure": "Rent a few VMs, measure model and network there, and release them.",
    "run": "Rent the VMs of a job's plan, train there, watch, and re-plan.",
    "status": "Say where a run stands.",
    "watch": "Show a run as it goes on.",
    "resume": "Go on with a run whose controller is gone.",
    "stop": "Have a run save, and release everything.",
    "report": "Say what a run did and cost, forecasts beside outcomes.",
    "catalog": "Show prices and quotas; bring fresh ones.",
    "profile": "Measure a PyTorch model on the device at hand.",
    "probe": "Measure allreduce times among the processes at hand, under torchrun.",
    "allreduce": "Keep measured allreduces, and forecast from them.",
    "evaluate": "Measure how well the models predict measurements of yours.",
}

EXIT_FAULT = 1
EXIT_BAD_INPUT = 2
EXIT_UNFINISHED = 4
EXIT_CLOUD_REFUSED = 5


class _LazyGroup(TyperGroup):
    """Knows the commands by name and one line of help; imports a command when it is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, line in COMMANDS.items():
            self.commands[name] = TyperCommand(name, help=line)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            with ending_at_once():
                module = importlib.import_module(f"srifty.cli.{name}")
            command = get_command(module.app)
            command.name = name
        return name, command, rest


app = typer.Typer(
    cls=_LazyGroup,
    help="Which cloud GPU VMs to rent so that a PyTorch job meets its deadline and budget.",
    epilog="Start with: srifty init -o job.yaml; srifty plan job.yaml",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"srifty {__version__}")
        raise typer.Exit


@app.callback()
def _root(  # pyright: ignore[reportUnusedFunction] - typer calls it
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Which cloud GPU VMs to rent so that a PyTorch job meets its deadline and budget."""
    del version


def main() -> None:
    """Runs the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal or pipe that has no "±" gets a "?"
            stream.reconfigure(errors="replace")
    try:
        get_command(app)(prog_name="srifty")
    except SystemExit as ended:
        # typer turns Ctrl-C into this code without a word; a command that said something itself
        # ends without a cause.
        if ended.code == EXIT_INTERRUPTED and _by_typer(ended):
            typer.echo("stopped", err=True)
        raise
    except InputError as error:
        _tell(error)
        sys.exit(EXIT_BAD_INPUT)
    except CloudRefused as error:
        _tell(error)
        sys.exit(EXIT_CLOUD_REFUSED)
    except SriftyError as error:
        _tell(error)
        sys.exit(EXIT_BAD_INPUT)
    except Exception as error:
        if os.environ.get("SRIFTY_DEBUG"):
            raise
        typer.echo(
            f"srifty failed ({type(error).__name__}: {error}). This is a fault of srifty's, not of "
            "your input; run again with SRIFTY_DEBUG=1 for the details, and please report them.",
            err=True,
        )
        _tell_notes(error)
        sys.exit(EXIT_FAULT)


def _tell(error: SriftyError) -> None:
    for line in str(error).splitlines():
        typer.echo(f"error: {line}", err=True)
    _tell_notes(error)


def _tell_notes(error: Exception) -> None:
    for note in getattr(error, "__notes__", ()):
        typer.echo(f"note: {note}.", err=True)


def _by_typer(ended: SystemExit) -> bool:
    """Whether a Ctrl-C reached typer, rather than a command that caught it."""
    before = ended.__context__
    return before is not None and isinstance(before.__cause__, KeyboardInterrupt)


if __name__ == "__main__":
    main()
