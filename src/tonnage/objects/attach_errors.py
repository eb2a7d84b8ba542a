"""What an attach that failed tells: whether the node had no room left for the volume."""

from tonnage.objects.storage import VolumeAttachment

RESOURCE_EXHAUSTED = 8
"""The gRPC code with which a driver says that there is no room left."""

_SAYING_SO = (
    "code = resourceexhausted",
    "attachmentlimitexceeded",
    "maximum number of data disks",
    "maximum number of disks",
    "maximum number of volumes",
    "maximum number of attachments",
    "max volume count",
)
"""In lower case: words of servers without codes, and of drivers whose code is another one."""


def without_room(attachment: VolumeAttachment) -> bool:
    """Whether the last attempt to attach failed for lack of room."""
    error = attachment.status.attach_error
    if error is None or attachment.status.attached:
        return False
    if error.error_code == RESOURCE_EXHAUSTED:
        return True
    message = error.message.lower()
    return any(words in message for words in _SAYING_SO)
