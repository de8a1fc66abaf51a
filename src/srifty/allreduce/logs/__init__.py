"""Logs of nccl-tests, of every era and in every wrapping → measurements that stood their checks."""

from srifty.allreduce.logs.parsed import BandwidthAverage, LogRow, ParsedLog
from srifty.allreduce.logs.reader import read_log

__all__ = ["BandwidthAverage", "LogRow", "ParsedLog", "read_log"]
