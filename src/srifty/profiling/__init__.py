"""A model and a way to make batches, on the device at hand → a `WorkloadProfile` (needs torch)."""
