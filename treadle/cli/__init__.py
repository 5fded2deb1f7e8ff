"""The command `treadle`."""

from treadle.cli.main import main as main
