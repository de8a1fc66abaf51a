"""H04: plain batch normalisation and local batches that differ: the plan says what that means."""

import pytest

from .jobs import has, plan, profile, write_case

WARNING = "plain batch normalisation"


@pytest.mark.parametrize(
    ("batch_norm", "global_batch", "warned"), [(True, 5, True), (True, 4, False), (False, 5, False)]
)
def test_unequal_local_batches_of_a_model_with_batch_normalisation(
    tmp_path, batch_norm, global_batch, warned
):
    document = plan(
        write_case(
            tmp_path,
            {"quota": {"g4dn.xlarge": 2}},
            profile("T4", batch_norm=batch_norm),
            global_batch=global_batch,
            minimize="time",
            batches="any",
        )
    )
    groups = document["plan"]["groups"]
    local = [batch for g in groups for batch in g["local_batch"] * g["count"]]
    assert sorted(local) == [global_batch // 2, -(-global_batch // 2)]
    assert has(document["warnings"], WARNING) == warned
    assert has(document["warnings"], "srifty.training.sync_batch_norm(model)") == warned
