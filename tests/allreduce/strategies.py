"""Samples for properties: every field that a file may hold."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from srifty.core.allreduce import AllreduceSample, Collective

# One line, nothing around it: what a cell of a CSV file keeps; quotes, commas, other scripts too.
texts = st.text(
    st.characters(exclude_categories=("C", "Z"), include_characters=" ,\"'"), max_size=8
).map(str.strip)
names = texts.filter(bool)


@st.composite
def samples(draw):
    vms = draw(st.integers(1, 64))
    return AllreduceSample(
        instance_type=draw(names),
        vms=vms,
        world_size=draw(st.integers(max(vms, 2), 4096)),
        size_bytes=draw(st.integers(1, 10**12)),
        time_s=draw(st.floats(0.25, 1e6)),
        cloud=draw(texts),
        transport=draw(texts),
        library_version=draw(texts),
        source=draw(texts),
        collective=draw(st.sampled_from(Collective)),
        gpu=draw(texts),
        region=draw(texts),
        zone=draw(texts),
        config=draw(texts),
        run=draw(texts),
        dtype=draw(texts),
        in_place=draw(st.booleans()),
        concurrent=draw(st.integers(1, 8)),
        placement_group=draw(st.sampled_from([None, True, False])),
        measured_at=draw(
            st.none()
            | st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
        ),
    )
