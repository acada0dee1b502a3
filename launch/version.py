"""Which Parley this is."""

from importlib.metadata import PackageNotFoundError, version


def release() -> str:
    """The version of the installed distribution."""
    try:
        return version("parley-ldp")
    except PackageNotFoundError:
        return "not installed"
