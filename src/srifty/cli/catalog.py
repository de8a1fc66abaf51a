"""`srifty catalog`: prices and quotas, built in and your own; import and fetch fresh ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from srifty.catalog import aws
from srifty.catalog.aws_calls import ApiCall
from srifty.catalog.builtin import builtin_instance_types, builtin_prices
from srifty.catalog.listing import (
    ListedPrice,
    ListedType,
    Wanted,
    find_type,
    listed_prices,
    listed_types,
    vms_within,
)
from srifty.catalog.sanity import age_in_words, parse_moment
from srifty.catalog.skypilot import SkypilotImport, read_skypilot
from srifty.catalog.store import (
    QuotaRow,
    add_prices,
    add_quotas,
    add_types,
    own_catalog_path,
    quotas_path,
    read_prices,
    read_quotas,
    read_types,
    types_path,
)
from srifty.cli._json import dump
from srifty.cli._options import AsJson
from srifty.cli._progress import SearchProgress
from srifty.cli._show import console_for_results
from srifty.cli.main import EXIT_CLOUD_REFUSED
from srifty.core.offers import Market
from srifty.errors import InputError
from srifty.units import format_bytes, format_usd

app = typer.Typer(
    help="Show prices and quotas; bring fresh ones.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    epilog="Your own catalog is the file that SRIFTY_CATALOG names; default "
    "~/.local/share/srifty/catalog.csv",
)

CloudOption = Annotated[str, typer.Option(help="Only this cloud: aws, gcp, ...")]
RegionOption = Annotated[str, typer.Option(help="The region, such as us-east-1.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the exact API calls; ask and change nothing.")
]


class RentedMarket(StrEnum):
    """The markets that have listed prices."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"


@app.callback()
def _group() -> None:  # pyright: ignore[reportUnusedFunction] - typer calls it
    """Show prices and quotas; bring fresh ones."""


@app.command("list", epilog="Example: srifty catalog list --region us-east-1 --gpu V100")
def list_prices(
    cloud: CloudOption = "",
    region: Annotated[str, typer.Option(help="Only this region.")] = "",
    gpu: Annotated[str, typer.Option(help="Only this GPU model, such as T4.")] = "",
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only this type; may be given several times.")
    ] = None,
    market: Annotated[RentedMarket | None, typer.Option(help="Only this market.")] = None,
    as_json: AsJson = False,
) -> None:
    """List prices with their age and source.

    Your own prices of a type in a market and region stand for the built-in ones there.
    """
    wanted = Wanted(
        cloud, region, gpu, Market(market.value) if market else None, tuple(types or ())
    )
    path = own_catalog_path()
    prices = _prices(path, wanted)
    if as_json:
        typer.echo(dump({"prices": [_price_document(p) for p in prices], "catalog": str(path)}))
        return
    if not prices:
        typer.echo(f"No prices match; your own catalog is {path}.", err=True)
        return
    _show_prices(prices)


@app.command(epilog="Example: srifty catalog show p3.8xlarge")
def show(
    name: Annotated[str, typer.Argument(metavar="TYPE", help="The instance type.")],
    cloud: CloudOption = "",
    as_json: AsJson = False,
) -> None:
    """Show what is known of one instance type: its facts, prices and quotas."""
    path = own_catalog_path()
    kinds = find_type(name, cloud, _types(path))
    prices = _prices(path, Wanted(cloud=cloud, types=(name,)))
    held = [
        (quota, vms[name])
        for quota in read_quotas(quotas_path(path))
        if name in (vms := vms_within(quota, kinds))
    ]
    if as_json:
        document: dict[str, Any] = {
            "types": [asdict(kind) for kind in kinds],
            "prices": [_price_document(price) for price in prices],
            "quotas": [_quota_document(quota, {name: vms}) for quota, vms in held],
            "catalog": str(path),
        }
        typer.echo(dump(document))
        return
    console = console_for_results()
    for kind in kinds:
        speed = kind.rated_gbit_per_s
        console.print(Text(f"{kind.name} ({kind.cloud})", style="bold"))
        console.print(
            f"  {kind.gpus} x {kind.gpu}, {format_bytes(kind.gpu_memory_bytes)} each; "
            f"{kind.vcpus} vCPUs; network "
            + (f"{speed:g} Gbit/s" if speed else "unknown (state it under offers.types of a job)")
        )
        console.print(Text(f"  {kind.source}", style="dim"))
    console.print()
    if prices:
        _show_prices(prices)
    else:
        console.print("  no price known")
    for quota, vms in held:
        console.print(f"  {_quota_words(quota)}: {vms} VMs, if nothing else runs")


@app.command(
    "import", epilog="Example: srifty catalog import vms.csv --cloud aws --date 2026-07-20"
)
def import_prices(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.csv", help="vms.csv of SkyPilot's public catalog.")
    ],
    cloud: Annotated[str, typer.Option(help="The cloud whose file it is: aws, gcp, ...")],
    date: Annotated[
        str | None,
        typer.Option(
            help="When the prices were true, as an ISO date or time; the file's own time if left "
            "out."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Import prices and instance types from SkyPilot's public catalog.

    Takes rows with GPUs that Srifty knows; everything else is counted by reason.
    """
    if not cloud.isidentifier():
        raise InputError(f"{cloud!r} is no cloud; write aws, gcp, azure, ...", "--cloud")
    moment, date_from = _import_date(file, date)
    known = {n: kind for n, kind in builtin_instance_types().items() if kind.cloud == cloud}
    result = read_skypilot(file, cloud, moment, known)
    path = own_catalog_path()
    document: dict[str, Any] = {
        "file": str(file),
        "cloud": cloud,
        "date": moment,
        "date_from": date_from,
        "rows": result.rows,
        "rows_taken": result.rows_taken,
        "prices": len(result.prices),
        "types": len(result.types),
        "dropped": [asdict(dropped) for dropped in result.dropped],
    }
    if result.prices:
        merged = add_prices(path, result.prices)
        add_types(types_path(path), [row for row in result.types if row.name not in known])
        document |= {
            "added": merged.added,
            "replaced": merged.replaced,
            "kept_newer": merged.kept_newer,
        }
    document["catalog"] = str(path)
    if as_json:
        typer.echo(dump(document))
    else:
        _show_import(result, document)
    if not result.prices:
        raise InputError("gave no usable price; nothing was imported", str(file))


@app.command(
    epilog="Example: srifty catalog refresh --region us-east-1 --type g4dn.xlarge --dry-run"
)
def refresh(
    region: RegionOption,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            help="An instance type; may be given several times. All built-in ones if left out.",
        ),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Fetch today's prices from AWS into your own catalog.

    Needs the extra "aws" of this package and read-only credentials. A part without an answer keeps
    its last prices, is named, and makes the exit code 5.
    """
    known = {n: kind for n, kind in builtin_instance_types().items() if kind.cloud == "aws"}
    names = tuple(dict.fromkeys(types or known))
    now = datetime.now(UTC)
    if dry_run:
        _show_calls(aws.refresh_calls(region, names, now), as_json)
        return
    with SearchProgress("Asking AWS") as progress:
        answer = aws.refresh(region, names, now=now, known=known, progress=progress)
    path = own_catalog_path()
    merged = add_prices(path, answer.prices, whole=True) if answer.prices else None
    learned = [row for row in answer.types if row.name not in known]
    if learned:
        add_types(types_path(path), learned)
    prices = [p for p in _prices(path, Wanted("aws", region, types=names)) if p.own]
    document: dict[str, Any] = {
        "region": region,
        "fetched": len(answer.prices),
        "added": merged.added if merged else 0,
        "replaced": merged.replaced if merged else 0,
        "removed": merged.removed if merged else 0,
        "prices": [_price_document(price) for price in prices],
        "rejected": [asdict(one) for one in answer.rejected],
        "failures": [asdict(failure) for failure in answer.failures],
        "catalog": str(path),
    }
    if as_json:
        typer.echo(dump(document))
    else:
        if prices:
            _show_prices(prices)
        typer.echo(f"Fetched {len(answer.prices)} prices into {path}.", err=True)
    for one in answer.rejected:
        typer.echo(f"not taken: {one.what}: {one.reason}", err=True)
    _exit_on_failures(answer.failures)


@app.command(epilog="Example: srifty catalog quota --region us-east-1 --dry-run")
def quota(
    region: RegionOption,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Fetch how many vCPUs your AWS account may run, by pool and market, into your own catalog."""
    if dry_run:
        _show_calls(aws.quota_calls(region), as_json)
        return
    with SearchProgress("Asking AWS") as progress:
        answer = aws.quotas(region, now=datetime.now(UTC), progress=progress)
    path = own_catalog_path()
    add_quotas(quotas_path(path), answer.quotas)
    kinds = sorted(_types(path).values(), key=lambda kind: (kind.vcpus, kind.name))
    rows = [(row, vms_within(row, kinds)) for row in answer.quotas]
    if as_json:
        document: dict[str, Any] = {
            "region": region,
            "quotas": [_quota_document(row, vms) for row, vms in rows],
            "failures": [asdict(failure) for failure in answer.failures],
            "catalog": str(quotas_path(path)),
        }
        typer.echo(dump(document))
    else:
        console = console_for_results()
        for row, vms in rows:
            fits = [f"{count} x {name}" for name, count in vms.items() if count][:3]
            words = ", or ".join(fits) if fits else "no VM of the types known"
            console.print(f"{_quota_words(row)}: {words}")
    _exit_on_failures(answer.failures)


def _types(path: Path) -> dict[tuple[str, str], ListedType]:
    return listed_types(builtin_instance_types(), read_types(types_path(path)))


def _prices(path: Path, wanted: Wanted) -> tuple[ListedPrice, ...]:
    types = _types(path)
    builtin = builtin_prices()
    return listed_prices(builtin, read_prices(path), types, wanted, datetime.now(UTC))


def _import_date(file: Path, date: str | None) -> tuple[str, str]:
    """Returns the date of a file's prices, and where it is from."""
    if date is not None:
        moment = parse_moment(date)
        if moment is None:
            raise InputError(f"{date!r} is no ISO date or time; write 2026-07-20", "--date")
        if moment > datetime.now(UTC) + timedelta(days=1):
            raise InputError(f"{date} lies in the future", "--date")
        return moment.isoformat(timespec="seconds"), "--date"
    try:
        changed = os.stat(file).st_mtime  # noqa: PTH116 - Path.stat says the same
    except OSError:
        changed = 0.0  # reading the file says what is wrong
    return datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds"), "the file's own time"


def _price_document(price: ListedPrice) -> dict[str, Any]:
    kind = price.kind
    return {
        "cloud": price.cloud,
        "instance_type": price.instance_type,
        "gpu": kind.gpu if kind else None,
        "gpus": kind.gpus if kind else None,
        "market": price.market.value,
        "region": price.region,
        "zone": price.zone,
        "usd_per_hour": price.usd_per_hour,
        "usd_per_gpu_hour": price.usd_per_hour / kind.gpus if kind else None,
        "date": price.date,
        "age": age_in_words(price.date, datetime.now(UTC)),
        "source": price.source,
        "own": price.own,
        "flags": [flag.value for flag in price.check.flags],
        "rejected": price.check.reason.value if price.check.reason else None,
    }


def _quota_document(quota: QuotaRow, vms: dict[str, int]) -> dict[str, Any]:
    return asdict(quota) | {"vms": vms}


def _quota_words(quota: QuotaRow) -> str:
    return f"{quota.market} {quota.pool} in {quota.region}: {quota.vcpus} vCPUs"


def _show_prices(prices: Sequence[ListedPrice]) -> None:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for heading, justify in (
        ("type", "left"),
        ("GPUs", "left"),
        ("market", "left"),
        ("where", "left"),
        ("USD/h", "right"),
        ("per GPU", "right"),
        ("age", "left"),
        ("mind", "left"),
    ):
        table.add_column(heading, justify="right" if justify == "right" else "left")
    sources: dict[str, int] = {}
    for price in prices:
        kind, check = price.kind, price.check
        number = sources.setdefault(price.source, len(sources) + 1)
        minds = [flag.value for flag in check.flags]
        if check.reason is not None:
            minds = [f"not used: {check.reason.value}"]
        if kind is None:
            minds.append("type not known")
        table.add_row(
            price.instance_type,
            f"{kind.gpus} x {kind.gpu}" if kind else "?",
            price.market.value,
            price.zone or price.region,
            format_usd(price.usd_per_hour),
            format_usd(price.usd_per_hour / kind.gpus) if kind else "",
            Text(f"{age_in_words(price.date, datetime.now(UTC))} [{number}]"),
            Text("; ".join(minds), style="yellow"),
        )
    console = console_for_results()
    console.print(table)
    for source, number in sources.items():
        console.print(Text(f"[{number}] {source}", style="dim"))


def _show_import(result: SkypilotImport, document: dict[str, Any]) -> None:
    console = console_for_results()
    console.print(
        f"{document['file']}: {result.rows_taken:,} of {result.rows:,} rows gave "
        f"{len(result.prices):,} prices of {len(result.types):,} instance types, dated "
        f"{document['date']} ({document['date_from']})."
    )
    if result.prices:
        console.print(
            f"{document['catalog']}: {document['added']:,} new, {document['replaced']:,} replaced, "
            f"{document['kept_newer']:,} left alone because yours are newer."
        )
    for dropped in result.dropped:
        lines = ", ".join(map(str, dropped.first_lines))
        more = ", ..." if dropped.count > len(dropped.first_lines) else ""
        verb = "nothing there" if dropped.gap else "not taken"
        console.print(
            Text(
                f"  {verb}: {dropped.count:,} x {dropped.reason} (line {lines}{more})",
                style="dim" if dropped.gap else "yellow",
            )
        )


def _show_calls(calls: Sequence[ApiCall], as_json: bool) -> None:
    if as_json:
        typer.echo(dump({"dry_run": True, "calls": [call.document() for call in calls]}))
        return
    for call in calls:
        typer.echo(str(call))
    typer.echo(f"{len(calls)} calls, not made; all of them only read.", err=True)


def _exit_on_failures(failures: Sequence[aws.Failure]) -> None:
    for failure in failures:
        typer.echo(f"error: no answer for {failure.part}: {failure.reason}", err=True)
    if failures:
        typer.echo("The catalog keeps what it had of these; the rest is stored.", err=True)
        raise typer.Exit(EXIT_CLOUD_REFUSED)
