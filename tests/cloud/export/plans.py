"""Small plans to export."""

from srifty.cloud.export import Deployment
from srifty.core import Location, Market
from srifty.core.settings import RunSettings
from srifty.core.written import WrittenGroup, WrittenPlan

HERE = Location("us-east-1", "us-east-1a")
COMMAND = ("train.py", "--note", "it's $HOME; `id`")
SETTINGS = RunSettings(
    setup=("pip install -r requirements.txt",),
    checkpoint="s3://bucket/run 1",
    data="s3://bucket/data",
    env=(("GREETING", 'a "b" $c'),),
    secrets=("HF_TOKEN",),
    tags=(("team", "vision"),),
)


def group(
    instance_type="p3.8xlarge",
    count=1,
    local_batch=(4, 4, 3),
    market=Market.SPOT,
    **fields,
):
    values = {"gpus": 4, "vcpus": 32, "cloud": "aws", "gpu": "V100"} | fields
    location = values.pop("location", HERE)
    return WrittenGroup(instance_type, market, location, count, local_batch, **values)


MIXED = (
    group(),
    group("g3.8xlarge", 2, (2, 1), gpus=2, gpu="M60"),
    group("g3.8xlarge", 1, (6,), Market.ON_DEMAND, accumulation=3, gpus=2, gpu="M60"),
)


def deployment(*groups, command=COMMAND, settings=SETTINGS, job="Toy Job", **fields):
    plan = WrittenPlan(job, "made up", groups or MIXED, settings)
    return Deployment(plan, command, **fields)
