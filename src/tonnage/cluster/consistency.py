"""Whether a cache holds what the server has, told by versions alone.

A watch that lost an event, or told two in the wrong order, leaves a cache wrong for as long as it
goes on. A list of versions shows it, and costs the server and us a fraction of a list of objects.
"""

from collections.abc import Collection, Mapping

from tonnage.cluster.cache import Cache, Key, version_number
from tonnage.cluster.resources import T


def differing(
    cache: Cache[T], listed: Mapping[Key, str], *, at: int, removed: Collection[Key]
) -> list[Key]:
    """The objects that the cache has otherwise than a list of versions `at` one.

    For a cache that knows everything up to `at`: what differs has changed since then, was `removed`
    since, could not be read, or is wrong.
    """
    unread = cache.problems
    wrong = []
    for key, version in listed.items():
        held = cache.objects.get(key)
        if held is None:
            if key not in removed and key not in unread:
                wrong.append(key)
            continue
        told = held.metadata.resource_version
        if told != version and _no_later(told, at) and key not in unread:
            wrong.append(key)
    for key, held in cache.objects.items():
        if key not in listed and _no_later(held.metadata.resource_version, at):
            wrong.append(key)
    return wrong


def _no_later(resource_version: str, at: int) -> bool:
    number = version_number(resource_version)
    return number is not None and number <= at
