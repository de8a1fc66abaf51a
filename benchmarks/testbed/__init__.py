"""An emulated cluster on one machine: real processes and a real network stack, shaped links.

Every VM is a Linux network namespace; links have a rate and, where wanted, delay, jitter, racks
and cross traffic. What computes on a GPU is emulated by whoever uses the bed; what passes between
processes is real. Root is needed: see `preflight.preflight`.
"""
