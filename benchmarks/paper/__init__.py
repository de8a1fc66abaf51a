"""The experiments of Luo et al. 2022, a script per figure or table; `reproduce` runs them all."""
