"""Logs for TensorBoard: written without it, and read."""

from treadle.io.tensorboard.reader import LogEntry as LogEntry
from treadle.io.tensorboard.reader import read_events as read_events
from treadle.io.tensorboard.writer import EventWriter as EventWriter
