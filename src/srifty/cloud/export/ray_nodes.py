"""A node of a Ray cluster in each cloud's own words (RunInstances, instances.insert)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from srifty.cloud.export.deployment import is_zone_id
from srifty.core.offers import Market
from srifty.core.settings import RunSettings
from srifty.errors import InputError

_DISK_GB = 200


def is_machine_image(image: str) -> bool:
    """Whether an image is a cloud's machine image; else it is a container's."""
    return image.startswith(("ami-", "projects/"))


def provider(
    settings: RunSettings, cloud: str, region: str, zones: Sequence[str], project: str | None
) -> dict[str, Any]:
    """Returns where the cluster lives.

    Args:
        settings: how the VMs are set up.
        cloud: `aws` or `gcp`.
        region: of all VMs.
        zones: of the VMs, as far as they are known.
        project: of Google Cloud.

    Raises:
        InputError: a project, zone or group is missing or not usable.
    """
    zones = tuple(dict.fromkeys(zones))
    found: dict[str, Any] = {"type": cloud, "region": region}
    if cloud == "gcp":
        if project is None:
            raise InputError(
                "Ray needs the project of Google Cloud that pays; give it with --project"
            )
        found["project_id"] = project
        found["availability_zone"] = _gcp_zone(region, zones)
        return found
    # Ids are no names: for them the place is said by each node, and a subnet of another zone is
    # refused by EC2, upon which Ray takes the next one.
    if zones and not any(is_zone_id(zone) for zone in zones):
        found["availability_zone"] = ",".join(zones)
    found["cache_stopped_nodes"] = False
    named = [name for name in settings.security_groups if not _is_group_id(name)]
    if named and len(settings.security_groups) > 1:
        raise InputError(
            "Ray takes one security group by its name, or several by their ids (sg-...), not "
            f"{', '.join(settings.security_groups)}"
        )
    if named:
        found["security_group"] = {"GroupName": named[0]}
    return found


def node_config(
    settings: RunSettings,
    cloud: str,
    machine: str,
    zone: str | None,
    market: Market,
    *,
    accelerator: str | None = None,
    gpus: int = 0,
) -> dict[str, Any]:
    """Returns the request for one node.

    Args:
        settings: how the VMs are set up.
        cloud: `aws` or `gcp`.
        machine: the cloud's machine type.
        zone: where it is to run, by name or id; None: where the provider says.
        market: how it is paid for.
        accelerator: what Google Cloud calls the GPUs that it attaches; None: they are built in.
        gpus: how many of them.

    Raises:
        InputError: a subnet or an image is not named as the cloud needs it.
    """
    if cloud == "gcp":
        return _gcp_node(settings, machine, market, accelerator, gpus)
    return _aws_node(settings, machine, zone, market)


def _aws_node(
    settings: RunSettings, machine: str, zone: str | None, market: Market
) -> dict[str, Any]:
    node: dict[str, Any] = {"InstanceType": machine}
    if zone is not None:
        key = "AvailabilityZoneId" if is_zone_id(zone) else "AvailabilityZone"
        node["Placement"] = {key: zone}
    if market is Market.SPOT:
        node["InstanceMarketOptions"] = {
            "MarketType": "spot",
            "SpotOptions": {
                "SpotInstanceType": "one-time",
                "InstanceInterruptionBehavior": "terminate",
            },
        }
    # Notices are read by tokens alone; a container is one hop further away.
    node["MetadataOptions"] = {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 2,
    }
    if settings.image is not None and is_machine_image(settings.image):
        node["ImageId"] = settings.image
    disk = {"VolumeSize": _DISK_GB, "VolumeType": "gp3", "DeleteOnTermination": True}
    node["BlockDeviceMappings"] = [{"DeviceName": "/dev/sda1", "Ebs": disk}]
    if settings.subnet is not None:
        if not settings.subnet.startswith("subnet-"):
            raise InputError(f"run.subnet: give the id (subnet-...), not {settings.subnet!r}")
        node["SubnetIds"] = [settings.subnet]
    ids = [name for name in settings.security_groups if _is_group_id(name)]
    if ids:
        node["SecurityGroupIds"] = ids
    if settings.instance_profile is not None:
        key = "Arn" if settings.instance_profile.startswith("arn:") else "Name"
        node["IamInstanceProfile"] = {key: settings.instance_profile}
    if settings.tags:
        tags = [{"Key": key, "Value": value} for key, value in settings.tags]
        node["TagSpecifications"] = [{"ResourceType": "instance", "Tags": tags}]
    return node


def _gcp_node(
    settings: RunSettings, machine: str, market: Market, accelerator: str | None, gpus: int
) -> dict[str, Any]:
    if settings.image is None or not settings.image.startswith("projects/"):
        raise InputError(
            "run.image: Ray on Google Cloud needs a machine image with NVIDIA's driver, such as "
            "projects/PROJECT/global/images/family/FAMILY"
        )
    image = {"diskSizeGb": _DISK_GB, "sourceImage": settings.image}
    node: dict[str, Any] = {
        "machineType": machine,
        "disks": [
            {"boot": True, "autoDelete": True, "type": "PERSISTENT", "initializeParams": image}
        ],
    }
    if accelerator is not None:
        node["guestAccelerators"] = [{"acceleratorType": accelerator, "acceleratorCount": gpus}]
    if gpus:  # machines with GPUs cannot be moved while they run
        scheduling: dict[str, Any] = {"onHostMaintenance": "TERMINATE"}
        if market is Market.SPOT:
            scheduling |= {"provisioningModel": "SPOT", "instanceTerminationAction": "DELETE"}
        node["scheduling"] = scheduling
    if settings.tags:
        node["labels"] = dict(settings.tags)
    return node


def _gcp_zone(region: str, zones: Sequence[str]) -> str:
    """Returns the one zone that Ray makes Google Cloud's nodes in."""
    if len(zones) > 1:
        raise InputError(f"Ray keeps to one zone on Google Cloud, not to {', '.join(zones)}")
    return zones[0] if zones else f"{region}-b"


def _is_group_id(name: str) -> bool:
    return name.startswith("sg-")
