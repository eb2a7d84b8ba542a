"""What a machine costs: by the table of its region, or by the operator's own prices."""

import asyncio
from pathlib import Path

import pytest

from tests.providers.aws.emulated import Aws, looked
from tonnage.providers.aws import config

pytestmark = pytest.mark.xdist_group("aws")


def test_a_price_of_the_table_is_for_its_region_only(aws: Aws) -> None:
    aws.group("a", type_="m5.large")

    async def main() -> float | None:
        return await (await looked(aws.provider())).price("a")

    assert asyncio.run(main()) == 0.096


def test_the_operators_prices_are_the_only_ones_if_there_are_any(aws: Aws) -> None:
    aws.group("a", type_="m5.large")

    async def main() -> float | None:
        return await (await looked(aws.provider(prices={"c5.large": 1.0}))).price("a")

    assert asyncio.run(main()) is None


def test_a_price_of_the_configuration_that_is_none_is_a_problem_of_its_groups(
    aws: Aws, tmp_path: Path
) -> None:
    aws.group("a", type_="m5.large")
    aws.group("b", type_="c5.large")
    file = tmp_path / "cloud-config.yaml"
    file.write_text("prices:\n  c5.large: 0.1\n  m5.large: 0.9 EUR\n  m5.xlarge:\n")
    found = config.read(file)
    wrong = (
        f'{file}:3: prices["m5.large"]: expected a price of an hour, above 0 and below'
        ' 1,000,000,000, without a currency, found "0.9 EUR"; not used'
    )
    assert found.unpriced["m5.large"] == wrong
    assert found.unpriced["m5.xlarge"].startswith(
        f'{file}:4: prices["m5.xlarge"]: expected a price'
    )

    async def main() -> None:
        provider = await looked(aws.provider(prices=found.prices, unpriced=found.unpriced))
        problems = {one.id: one.problems for one in await provider.groups()}
        assert problems == {"a": (f"group a: {wrong}",), "b": ()}
        assert (await provider.price("a"), await provider.price("b")) == (None, 0.1)

    asyncio.run(main())


@pytest.mark.parametrize("price", ["-1", "0", "cheap", "true", "[1]"])
def test_a_price_that_is_none_never_falls_back_to_the_table(
    aws: Aws, tmp_path: Path, price: str
) -> None:
    aws.group("a", type_="m5.large")
    file = tmp_path / "cloud-config.yaml"
    file.write_text(f"prices: {{m5.large: {price}}}")
    found = config.read(file)

    async def main() -> float | None:
        provider = await looked(aws.provider(prices=found.prices, unpriced=found.unpriced))
        return await provider.price("a")

    assert asyncio.run(main()) is None
