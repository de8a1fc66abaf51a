"""Where VMs come from: one small interface, and a back end for each place."""
