"""Regenerates the blend of allreduce models that plans on the built-in samples use.

Run in the repository root, with the package importable:

    python tools/choose_recipe.py

It writes `src/srifty/data/allreduce_recipe.json`: what grouped cross-validation chooses on the
built-in samples, without boosted trees (which would cost every plan their import). The same samples
give the same file; a test compares them.
"""

from __future__ import annotations

import json
from pathlib import Path

from srifty.allreduce.blend import Blend
from srifty.allreduce.samples import builtin_samples
from srifty.allreduce.table import SampleTable
from srifty.catalog import builtin_instance_types

TARGET = Path("src/srifty/data/allreduce_recipe.json")


def main() -> None:
    """Chooses and writes the recipe."""
    table = SampleTable.of(builtin_samples())
    recipe = Blend(builtin_instance_types(), trees=False).fit(table).recipe
    TARGET.write_text(json.dumps(recipe.document(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
