"""Private arguments are never shown, whatever the function does with them."""

from typing import Any

from remit.governed_functions import governed
from tests.governed_functions.customer_workspace import Place, result_of


def test_private_arguments_are_neither_in_the_ledger_nor_in_a_preview(place: Place) -> None:
    secrets: dict[str, Any] = {"pin": "blue-whale\n4711", "codes": [7, "narwhal"]}

    @governed(
        place.workspace,
        "safe.open",
        consent="policy",
        allow=lambda **_: "allow",
        preview=lambda pin, codes, **_: f"Opens with {pin} and {codes}",
        private=("pin", "codes"),
    )
    def open_safe(pin: str, codes: list[int | str], year: int) -> dict[str, Any]:
        if year:
            raise ValueError(f"no safe opens with {pin!r}, nor {pin}, nor {codes}, in {year}")
        return {"pin": pin, "codes": codes}

    def broken(pin: str, **_: Any) -> None:
        raise KeyError(pin)

    @governed(
        place.workspace, "safe.close", consent="none", before=broken, undo=lambda *_, **__: None, private=("pin",)
    )
    def close_safe(pin: str) -> str:
        return pin

    token = place.token("safe.open", "safe.close")
    opened = open_safe.call(token=token, key="safe-1", **secrets, year=0)
    assert result_of(opened).value == secrets, "the agent, who knows it, gets the value"
    failed = open_safe.call(token=token, key="safe-2", **secrets, year=2017)
    cut = close_safe.call(token=token, key="safe-3", pin=secrets["pin"])
    said = "".join([place.payloads(f"safe-{number}") for number in (1, 2, 3)])
    said += f"{result_of(failed).error} {result_of(cut).error}"
    assert "2017" in said, "a short secret hides a longer text that contains it"
    for secret in ("blue-whale", "4711", "narwhal", "[7"):
        assert secret not in said, secret
