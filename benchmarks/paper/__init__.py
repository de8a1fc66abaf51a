"""Experiments of Luo et al. 2022 that are run, not only forecast."""
