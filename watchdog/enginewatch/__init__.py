"""enginewatch: a watchdog for LLM serving engines."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("enginewatch")
except PackageNotFoundError:  # running from a source tree that was never installed
    __version__ = "0+unknown"
