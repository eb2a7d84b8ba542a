"""What the documentation shows of the world can be used as it is."""

from pathlib import Path

import msgspec

from tonnage.embedded.cloud import CloudBehaviour
from tonnage.embedded.world import WorldBehaviour
from tonnage.files import yamltext

PAGE = Path(__file__).parents[2] / "docs" / "embedded.md"


class Behaviours(msgspec.Struct, forbid_unknown_fields=True):
    world: WorldBehaviour
    cloud: CloudBehaviour


def test_the_behaviour_in_the_documentation_is_understood():
    text = PAGE.read_text().partition("```yaml\n")[2].partition("```")[0]
    (document,) = yamltext.read(text.encode(), first_line=1)
    found = msgspec.convert(document.value, Behaviours)
    assert found.world.drivers[0].changes[0].limit == 20
    assert [one.error for one in found.cloud.shortages] == ["outOfResources", "quota", "other"]
