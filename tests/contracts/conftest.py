"""AWS, emulated on loopback."""

from tests.providers.aws.emulated import aws, endpoint

__all__ = ["aws", "endpoint"]
