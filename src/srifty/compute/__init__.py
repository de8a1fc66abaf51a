"""Measured batch latencies → a latency model: piecewise linear, with spread, knee and memory."""
