"""Scripts run by bash, with stand-ins for the programs that they start."""

import json
import os
import subprocess
from pathlib import Path

_RECORD = """\
#!/usr/bin/env python3
import json, os, pathlib, sys, uuid
ours = ("SHARES", "CHECKPOINT", "NOTICES", "DATA")
names = (*(f"SRIFTY_{name}" for name in ours), "GREETING", "HF_TOKEN")
told = {"arguments": sys.argv[1:], "variables": {n: os.environ.get(n) for n in names}}
folder = pathlib.Path(os.environ["RECORDS"])
(folder / uuid.uuid4().hex).write_text(json.dumps(told))
sys.exit(int(os.environ.get("TORCHRUN_EXIT", "0")))
"""
VARIABLES = {
    "SRIFTY_CHECKPOINT": "s3://bucket/run 1",
    "SRIFTY_DATA": "s3://bucket/data",
    "SRIFTY_NOTICES": "ec2",
    "GREETING": 'a "b" $c',
    "HF_TOKEN": "secret",
}


def run_script(folder: Path, text, *arguments, programs=None, **variables):
    """Runs a script; returns what ended and what `torchrun` was called with, in order of nodes."""
    bin_, records = folder / "bin", folder / "records"
    for each in (bin_, records):
        each.mkdir(exist_ok=True)
    for name, source in {"torchrun": _RECORD, "pip": "#!/bin/sh\n", **(programs or {})}.items():
        (bin_ / name).write_text(source)
        (bin_ / name).chmod(0o755)
    script = folder / "script"
    script.write_text(text)
    done = subprocess.run(
        ["bash", str(script), *arguments],
        env={"PATH": f"{bin_}:{os.environ['PATH']}", "RECORDS": str(records), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told = [json.loads(path.read_text()) for path in records.iterdir()]
    return done, sorted(told, key=lambda one: option(one, "--node-rank"))


def option(told, name):
    """The value of `--name=value` among a command's arguments."""
    (found,) = [each.partition("=")[2] for each in told["arguments"] if each.startswith(f"{name}=")]
    return found
