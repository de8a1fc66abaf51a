"""Job and profile files that are wrong, and words that the message must have."""
# ruff: noqa: E501 - one row a case

from __future__ import annotations

import json

from tests.command import job_text, profile_document

_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
)
_QUOTA = "{g4dn.xlarge: 4}"
_TOKENS = "global_batch: {tokens: 1000, seq_len: 300}"


def _prices(prices):
    return job_text((f"quota: {_QUOTA}", f"quota: {_QUOTA}\n  prices: {prices}"))


def _offers(line):
    return job_text((f"quota: {_QUOTA}", f"quota: {_QUOTA}\n  {line}"))


# name: (text, words...)
JOBS = {
    "unknown key": (job_text(extra="deadlin: 3h"), "deadlin: unknown key; remove it or check"),
    "wrong type": (job_text(("name: toy", "name: [1]")), "name: must be a valid string, not [1]"),
    "empty name": (job_text(("name: toy", "name: ''")), "name: must be a text", "not ''"),
    "control characters": (job_text(("name: toy", 'name: "a\\e[31m"')), "name: must be a text of p"),
    "number without a unit": (job_text(extra="deadline: 500"), "deadline: must be a duration with a",
                              "500s, 90m or 6h, not 500"),
    "text without a unit": (job_text(extra="deadline: '500'"), "deadline: '500' is not a duration",
                            "write a number and a unit"),
    "negative deadline": (job_text(extra="deadline: -5s"), "deadline: '-5s' is not a duration"),
    "no time at all": (job_text(extra="deadline: 0s"), "deadline: must be above 0s, not '0s'"),
    "endless deadline": (job_text(extra=f"deadline: {'9' * 400}h"), "deadline must lie between"),
    "missing keys": ("name: toy\n", "workload: is missing", "global_batch: is missing",
                     "offers: is missing"),
    "unknown type": (job_text(("g4dn.xlarge", "g4dn.xlrge")), "offers.quota.g4dn.xlrge: unknown ins",
                     "did you mean g4dn.xlarge", "offers.types"),
    "no YAML": ("name: [1, 2\nx: }", "line 2:", "a job file (JOB.yaml) was expected"),
    "a tab": ("name: a\n\tx: 1", "line 2:", "'\\t'"),
    "key twice": (job_text(extra="minimize: time\nminimize: cost"), "line 2: the key 'minimize' is"),
    "type twice": (job_text((_QUOTA, "{p3.8xlarge: 4, p3.8xlarge: 5}")), "'p3.8xlarge' is given twi"),
    "binary": (b"\x89PNG\xff\x00", "is not UTF-8 text"),
    "NUL": (b"name: \x00\n", "is not YAML (character 7"),
    "empty": ("", "must be a mapping", "srifty init writes one"),
    "only comments": ("# nothing\n", "must be a mapping"),
    "a list": ("- 1\n- 2\n", "must be a mapping"),
    "two documents": (job_text() + "---\n" + job_text(), "line 9"),
    "a list as a key": (job_text(extra="[1, 2]: 3"), "line 1: keys must be plain"),
    "a set as a key": (job_text(extra="? !!set {a}\n: 3"), "line 1: keys must be plain"),
    "a number as a key": (job_text(extra="5: 3"), "5: keys should be strings"),
    "undefined alias": (job_text(("name: toy", "name: *x")), "line 1: found undefined alias 'x'"),
    "a tag of Python's": (job_text(extra="run: !!python/object/apply:os.system ['true']"), "line 1"),
    "no such date": (job_text(("name: toy", "name: 2026-02-30")), "line 1: '2026-02-30' cannot be",
                     "quote it"),
    "number of 5,000 digits": (job_text(("64", "1" + "0" * 5000)), "line 3", "cannot be read"),
    "NaN": (job_text(extra="budget_usd: .nan"), "budget_usd: must be a finite number (got nan)"),
    "infinity": (job_text(extra="budget_usd: .inf"), "budget_usd: must be a finite number"),
    "negative budget": (job_text(extra="budget_usd: -3"), "budget_usd: must be greater than 0 (got -"),
    "budget with a unit": (job_text(extra="budget_usd: 3 USD"), "budget_usd: must be a valid number"),
    "negative batch": (job_text(("64", "-64")), "global_batch: must be a whole number of at least 1"),
    "fraction of a sample": (job_text(("64", "64.5")), "global_batch: must be a number of samples"),
    "truth as a batch": (job_text(("64", "true")), "global_batch: must be", "not True"),
    "huge batch": (job_text(("64", "1" + "0" * 12)), "global_batch must be at most 1,000,000,000"),
    "enormous batch": (job_text(("64", "1" + "0" * 30)), "global_batch: must be at most"),
    "enormous iterations": (job_text(("100", "1" + "0" * 400)), "iterations: must be at most"),
    "enormous quota": (job_text((_QUOTA, "{g4dn.xlarge: 1" + "0" * 30 + "}")),
                       "offers.quota.g4dn.xlarge: must be a number of VMs"),
    "iterations and epochs": (job_text(extra="epochs: 3\ndataset_size: 100"),
                              "iterations: give either iterations, or epochs and dataset_size"),
    "epochs alone": (job_text(("iterations: 100", "epochs: 3")), "there is only epochs"),
    "no length": (job_text(("iterations: 100\n", "")), "iterations: is missing; give iterations, or"),
    "tokens that don't divide": (job_text(("global_batch: 64", _TOKENS)),
                                 "global_batch: 1000 tokens", "write 900 or 1200"),
    "fewer tokens than a sequence": (job_text(("64", "{tokens: 10, seq_len: 300}")), "write 300"),
    "tokens without a length": (job_text(("64", "{tokens: 1000}")), "the keys tokens and seq_len"),
    "negative sequences": (job_text(("64", "{sequences: -3, seq_len: 10}")), "global_batch: sequences"),
    "missing workload": (job_text(("toy.json", "none.json")), "workload:", "none.json: there is no su",
                         "a workload profile (PROFILE.json) was expected"),
    "folder as workload": (job_text(("toy.json", ".")), "workload:", "cannot be read: Is a directory"),
    "NUL in a name": (job_text(("toy.json", '"a\\0b"')), "workload:", "is no file name"),
    "unknown built-in": (job_text(("toy.json", "builtin:resnet5")), "no built-in workload 'resnet5'",
                         "resnet50"),
    "profile twice": (job_text(("toy.json", "[toy.json, toy.json]")), "one profile per GPU model"),
    "no workload": (job_text(("toy.json", "[]")), "workload: must be a profile file, a list"),
    "unknown market": (job_text(("[on-demand, spot]", "[spott]")), "offers.markets: markets are",
                       "not 'spott'"),
    "no market": (job_text(("[on-demand, spot]", "[]")), "offers.markets: must name at least one"),
    "negative quota": (job_text((_QUOTA, "{g4dn.xlarge: -4}")), "offers.quota.g4dn.xlarge: must be a "),
    "quota as a list": (job_text((_QUOTA, "[g4dn.xlarge]")), "offers.quota: must map instance types"),
    "no quota": (job_text((_QUOTA, "{}")), "offers.quota: must map instance types to numbers of VMs"),
    "quota in an unknown market": (job_text((_QUOTA, "{g4dn.xlarge: {spott: 4}}")),
                                   "offers.quota.g4dn.xlarge: markets are on-demand and spot"),
    "quota in another market only": (
        job_text((_QUOTA, "{g4dn.xlarge: {spot: 4}}"), ("[on-demand, spot]", "[on-demand]")),
        "offers.quota.g4dn.xlarge: has a quota in other markets than offers.markets (on-demand)"),
    "several prices": (_prices("{g4dn.xlarge: {spot: -3, on-demand: .nan}, p3.8xlarge: 3}"),
                       "offers.prices.g4dn.xlarge: spot: must be USD per hour, above 0, not -3; "
                       "on-demand: must be USD", "offers.prices.p3.8xlarge: must map markets"),
    "enormous price": (_prices("{g4dn.xlarge: {spot: 1" + "0" * 400 + "}}"), "spot: must be USD per"),
    "price of an unknown type": (_prices("{g4dn.xlrge: {spot: 3}}"), "offers.prices.g4dn.xlrge: unkno",
                                 "did you mean"),
    "no price": (job_text((_QUOTA, _QUOTA + "\n  region: mars-1")), "has no on-demand or spot price in",
                 "state one: offers.prices: {g4dn.xlarge: {on-demand: 1.23}}"),
    "another cloud's": (job_text((_QUOTA, _QUOTA + "\n  cloud: gcp")), "is aws's, not gcp's"),
    "no profile for the GPU": (job_text(("g4dn.xlarge", "p3.8xlarge")), "the offers have V100, the pro"),
    "a number for a mapping": (job_text(extra="run: 3"), "run: must be a mapping of keys to values, not 3"),
    "confidence of 90": (job_text(extra="confidence: 90"), "confidence: must be less than 1 (got 90)"),
    "unknown objective": (job_text(extra="minimize: money"), "minimize: must be one of time, cost"),
    "overheads": (job_text(("{launch: 0s}", "{launch: 10, checkpoint: {every: 0, takes: 4s}}")),
                  "overheads.launch: must be a duration", "overheads.checkpoint.every: must be a"),
    "synchronisation": (job_text(extra="gradient_sync: {mode: ring, bucket_mib: 0, slots: 0}"),
                        "gradient_sync.mode: must be one of ddp, per-layer",
                        "gradient_sync.bucket_mib: must be greater than 0",
                        "gradient_sync.slots: must be a number of concurrent transfers"),
    "unused parameters": (job_text(extra="gradient_sync: {find_unused_parameters: 3}"),
                          "gradient_sync.find_unused_parameters: must be true, false or auto, not 3"),
    "no such samples": (job_text(extra="allreduce: none.csv"), "allreduce: there is no file"),
    "network": (job_text(extra="network: {efa: maybe, placement_group: 3, ib: on}"),
                "network.efa: must be on, off or auto, not 'maybe'",
                "network.placement_group: must be on, off or auto, not 3", "network.ib: unknown key"),
    "zones": (_offers("zones: [1]"), "offers.zones: must be any, a zone, or a list of zones, not [1]"),
    "zones of another region": (
        _offers("zones: [usw2-az1]").replace("[on-demand, spot]", "[spot]"),
        "has no spot price in usw2-az1, only in other zones"),
    "vCPU pool without a family": (
        _offers('vcpu_quota: {spot: 120}'), "offers.vcpu_quota: pools are named by market and family",
        '"spot G"', "not 'spot'"),
    "vCPU pool of an unknown market": (_offers('vcpu_quota: {"sopt G": 120}'), "not 'sopt G'"),
    "negative vCPUs": (_offers('vcpu_quota: {"spot G": -1}'), "spot G: must be a number of vCPUs"),
    "vCPU quota as a number": (_offers("vcpu_quota: 120"), "offers.vcpu_quota: must map pools to vCPUs"),
    "vCPUs without a pool": (job_text((_QUOTA, "{g4dn.xlarge: vcpus}")),
                             "has neither a number of VMs nor a vCPU quota for on-demand G; give one"),
    "preference for nothing": (_offers("prefer: [p3.8xlarge]"),
                               "offers.prefer: p3.8xlarge is not among the offers (g4dn.xlarge)"),
    "reservation": (
        _offers("reserved: [{type: g4dn.xlarge, count: 0, end: soon, usd_per_hour: -1}]"),
        "offers.reserved.0.count: must be a whole", "offers.reserved.0.end: must be a point in time",
        "2026-12-24T00:00Z", "offers.reserved.0.usd_per_hour: must be greater than or equal to 0"),
    "reservation of an unknown type": (_offers("reserved: [{type: g4dn.xlrge, count: 1}]"),
                                       "offers.reserved.0.type: unknown instance type; did you mean"),
    "owned": (_offers("owned: [{name: 8x, gpu: T4, gpus: 8, vcpus: 8, count: 1, usd_per_hour: .inf}]"),
              "offers.owned.0.usd_per_hour: must be a finite number"),
    "owned name": (_offers("owned: [{name: 8x, gpu: T4, gpus: 8, vcpus: 8, count: 1}]"),
                   "offers.owned.0: an instance type's name starts with a letter"),
    "owned of an unknown GPU": (_offers("owned: [{name: lab, gpu: Q9, gpus: 8, vcpus: 8, count: 1}]"),
                                "the memory of a Q9 is not known; give gpu_memory_gib"),
    "declared type": (
        job_text((_QUOTA, _QUOTA + "\n  types: [{name: lab, gpu: T4, gpus: 0, gpu_memory_gib: 1e+999,"
                  " vcpus: x, rated_gbit_per_s: 10}]")),
        "offers.types.0.gpus: must be a whole number", "offers.types.0.vcpus"),
    "declared name": (
        job_text((_QUOTA, _QUOTA + "\n  types: [{name: 8xlab, gpu: T4, gpus: 1, gpu_memory_gib: 16,"
                  " vcpus: 4, rated_gbit_per_s: 10}]")),
        "offers.types.0: an instance type's name starts with a letter"),
    "deeply nested": ("name: " + "[" * 3000, "is nested too deeply"),
    "bomb": (_BOMB + job_text(), "a9: unknown key"),
    "bomb in a value": (_BOMB + job_text(("name: toy", "name: *a9")), "name: must be a valid string"),
    "bomb in the quota": (_BOMB + job_text((_QUOTA, "*a9")), "offers.quota: must map instance types"),
    "bomb in the batch": (_BOMB + job_text(("64", "*a9")), "global_batch: must be a number of samples"),
    "bomb in the workload": (_BOMB + job_text(("toy.json", "*a9")), "workload: must be a profile file"),
    "recursion": ("&a\nname: *a\n", "line 1"),
}  # fmt: skip

_ONE = {"batch": 1, "forward_s": 0.1, "backward_s": 0.2}


def _latencies(*rows):
    return profile_document(latencies=list(rows))


def _sized(*by_batch):
    return profile_document(
        gradients=[
            {"name": str(at), "bytes": 4, "ready": 0.5, "ready_at": each}
            for at, each in enumerate(by_batch)
        ]
    )


def _gradients(*rows):
    return profile_document(gradients=[{"name": n, "bytes": b, "ready": r} for n, b, r in rows])


def _parts(*changes):
    rows = [
        {"name": n, "bytes": 4, "ready": 1.0} | change
        for n, change in zip("ab", changes, strict=False)
    ]
    return profile_document(gradients=rows)


PROFILES = {
    "forward alone": (_latencies({"batch": 1, "forward_s": 0.1}), "latencies.0: batch 1 needs",
                      "forward_s and backward_s, or iteration_s"),
    "unsorted": (_latencies(_ONE | {"batch": 4}, _ONE), "latencies must stand by ascending batch"),
    "batch twice": (_latencies(_ONE, _ONE), "each once, but batch 1 follows 1"),
    "mixed": (_latencies(_ONE, {"batch": 2, "iteration_s": 0.3}), "latencies must all be split"),
    "no latencies": (_latencies(), "at least one latency"),
    "latencies as a mapping": (profile_document(latencies={"a": 1}), "latencies: must be a list"),
    "no batch": (_latencies(_ONE | {"batch": 0}), "latencies.0: batch must be a whole number"),
    "half a sample": (_latencies(_ONE | {"batch": 1.5}), "latencies.0.batch: must be a valid integer"),
    "negative and zero": (_latencies(_ONE | {"forward_s": -1}, _ONE | {"batch": 2, "backward_s": 0}),
                          "latencies.0: batch 1: forward_s must be above 0, not -1",
                          "latencies.1: batch 2: backward_s must be above 0, not 0"),
    "NaN": (json.dumps(_latencies(_ONE | {"forward_s": float("nan")})),
            "latencies.0.forward_s: must be a finite number (got nan)"),
    "infinity": (json.dumps(_latencies(_ONE | {"forward_s": float("inf")})), "must be a finite number"),
    "enormous": (_latencies(_ONE | {"forward_s": 1e308, "backward_s": 1e308}), "must lie between"),
    "minute": (_latencies(_ONE | {"forward_s": 1e-320}), "must lie between"),
    "time as a text": (_latencies(_ONE | {"forward_s": "10 ms"}), "latencies.0.forward_s: must be a va"),
    "ready above 1": (_gradients(("w", 4, 1.5)), "gradients.0: gradient 'w': ready must lie between"),
    "ready below 0": (_gradients(("w", 4, -0.5)), "gradients.0: gradient 'w': ready must lie between"),
    "ready falls": (_gradients(("a", 4, 0.9), ("b", 4, 0.5)), "gradients: gradients must stand in order",
                    "'b' (0.5) follows 'a' (0.9)"),
    "empty gradient": (_gradients(("w", 0, 0.5)), "gradients.0: gradient 'w': bytes must be"),
    "enormous gradient": (_gradients(("w", 10**30, 0.5)), "bytes must be at most"),
    "bytes as a text": (_gradients(("w", "1 MB", 0.5)), "gradients.0.bytes: must be a valid integer"),
    "wrong format": (profile_document(format="srifty-profile/2"), "format: must be 'srifty-profile/1'"),
    "no format": (profile_document(format=None), "format: is missing"),
    "missing keys": (profile_document(workload=None, gpu=None, max_batch=None), "workload: is missing",
                     "gpu: is missing", "max_batch: is missing"),
    "unknown key": (profile_document(maxbatch=3), "maxbatch: unknown key"),
    "all together": (
        profile_document(maxbatch=3, max_batch=-1, latencies=[_ONE | {"batch": 0}],
                         gradients=[{"name": "w", "bytes": 4, "ready": 3}]),
        "maxbatch: unknown key", "max_batch: must be a whole number", "latencies.0: batch must be",
        "gradients.0: gradient 'w': ready"),
    "syntax": ('{"format": ', "is not JSON (line 1, column 12", "PROFILE.json) was expected"),
    "comma too many": ('{"format": "srifty-profile/1",}', "is not JSON (line 1"),
    "key twice": ('{"gpu": "T4", "gpu": "V100"}', "the key 'gpu' is given twice"),
    "number of 5,000 digits": ('{"max_batch": ' + "7" * 5000 + "}", "is too large"),
    "deeply nested": ("[" * 100_000, "is nested too deeply"),
    "empty": ("", "is not JSON (line 1, column 1"),
    "a list": ("[]", "must be a mapping of keys to values, not []"),
    "nothing": ("null", "must be a mapping of keys to values, not None"),
    "no samples fit": (profile_document(max_batch=0), "max_batch: must be a whole number of at least 1"),
    "enormous max_batch": (profile_document(max_batch=10**30), "max_batch: must be at most"),
    "max below min": (profile_document(min_batch=65), "min_batch (65) is above max_batch (64)"),
    "verified batch of none": (profile_document(verified_batches=[8, 0]), "verified_batches.1: must be a whole"),
    "unknown evidence": (profile_document(max_batch_evidence="guess"), "max_batch_evidence: must be 'm"),
    "spread above 1": (profile_document(spatial_std_fraction=2), "spatial_std_fraction: must be less"),
    "negative interval": (profile_document(interval_fraction=-1), "interval_fraction: must be greater"),
    "negative compilation": (profile_document(compile_s=-3), "compile_s: must be greater than or equal"),
    "negative steps": (_latencies(_ONE | {"steps": -3}), "latencies.0: batch 1: steps must be a whole"),
    "unknown unit": (profile_document(item={"unit": "word"}), "item.unit: must be 'sample'"),
    "no tokens": (profile_document(item={"unit": "sequence", "seq_len": 0}), "item: item.seq_len must"),
    "memory": (profile_document(peak_memory_bytes={"a": 3, "4": -1, "9" * 30: 2}),
               "peak_memory_bytes.a: must map a batch size to bytes", "peak_memory_bytes.4: must map"),
    "too large for the GPU": (profile_document(peak_memory_bytes={"1": 10**12}),
                              "toy does not fit on T4: 1 samples need 931 GiB", "has 16 GiB"),
    "notes as a text": (profile_document(notes="x"), "notes: must be a list, not 'x'"),
    "ready at no batch": (_sized({"4": 0.5, "0": 0.5}), "gradients.0.ready_at: must map batch sizes"),
    "ready at what": (_sized(0.5), "gradients.0.ready_at: must be a mapping of keys to values, not 0.5"),
    "ready at more than all": (_sized({"4": 1.5}), "gradients.0", "ready_at.4 must lie between 0 and 1"),
    "ready at other batches": (_sized({"4": 0.5}, {"8": 0.5}), "gradients: ready_at must have the same"),
    "index twice": (
        profile_document(gradients=[{"name": n, "bytes": 4, "ready": 1.0, "index": 0} for n in "ab"]),
        "gradients: index must be another one in each gradient", "but 'a', 'b' have 0"),
    "index in some": (
        _parts({"index": 0}, {}), "gradients: index must stand in all", "missing in 'b'"),
    "dtype in some": (
        _parts({"dtype": "float32"}, {}), "gradients: dtype must stand in all", "missing in 'b'"),
    "dtype misspelt": (
        _parts({"dtype": "floot32"}), "gradients.0: gradient 'a': dtype 'floot32' is no element type; write float32"),
    "dtype of torch": (_parts({"dtype": "torch.bfloat16"}), "'torch.bfloat16' is no", "write bfloat16"),
    "dtype of nothing": (_parts({"dtype": "¤"}), "'¤' is no element type; known are bfloat16, "),
    "dtype of unused": (
        profile_document(unused_parameters=[{"name": "a", "bytes": 4, "dtype": "fp 32"}]),
        "unused_parameters.0: gradient 'a': dtype 'fp 32'"),
    "half an element": (
        _parts({"dtype": "float64"}), "gradients.0: gradient 'a': bytes must be a multiple of 8"),
    "name twice": (_parts({}, {"name": "a"}), "must have different names, but 'a' stands there 2 times"),
    "ready against ready at": (
        _parts({"ready_at": {"4": 0.2, "8": 0.3}}),
        "gradients.0: gradient 'a': ready (1) contradicts ready_at", "between 0.2 and 0.3"),
    "negative index": (
        profile_document(gradients=[{"name": "a", "bytes": 4, "ready": 1.0, "index": -1}]),
        "gradients.0", "index must be a whole number of at least 0"),
    "unused without gradients": (
        profile_document(gradients=None, unused_parameters=[{"name": "a", "bytes": 4}]),
        "unused_parameters: need the gradients that they stand beside"),
    "unused of no bytes": (profile_document(unused_parameters=[{"name": "a", "bytes": 0}]),
                           "gradient 'a': bytes must be a whole number of at least 1"),
    "layers": (profile_document(layers=[{"name": "conv", "flops": -1, "bytes": 1, "parameters": 1}]),
               "layers.0: layer 'conv': flops must be 0 or more"),
    "unprintable": (profile_document(workload="\ud800"), "workload: must be a text of printable"),
    "empty names": (profile_document(workload="", gpu=""), "workload: must be a text", "gpu: must be"),
}  # fmt: skip
