"""What a person can be. What each role may do stands in one table, `remit.services.base.permissions`."""

from typing import Final, Literal

Role = Literal["viewer", "approver", "operator", "admin"]
ROLES: Final[tuple[Role, ...]] = ("viewer", "approver", "operator", "admin")
