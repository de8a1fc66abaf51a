from pathlib import Path

from .namespace import needs_namespace, needs_ray, run_inside


@needs_ray
@needs_namespace
def test_the_contract_holds_on_rays_own_local_cluster():
    # So long on a machine that is busy with other things.
    run_inside(Path(__file__).with_name("in_namespace.py"), most_s=900)
