"""What all tests share."""

import signal


def pytest_configure() -> None:
    """Shells start background jobs with Ctrl-C ignored, and children inherit that: tests interrupt theirs."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
