"""A process group and a grid of sizes → measured allreduce samples (needs torch)."""
