"""Whether what the extra `cloud` installs is there."""

from importlib.util import find_spec

from headtail_fabric.errors import ConfigError


class CloudExtraMissingError(ConfigError):
    """A package that the cloud server needs is not installed. Install them with `pip install
    'headtail[cloud]'`; `'headtail[llm]'` is for language models, `'headtail[cloud-ray]'` for
    `--runtime ray`."""


def require(*packages: str, extra: str = "cloud") -> None:
    """Raises CloudExtraMissingError for the first that is missing."""
    for package in packages:
        if find_spec(package) is None:
            raise CloudExtraMissingError(f"the package {package} is not installed", extra=extra)
