"""What a person can be. What each role may do stands in one table, `remit.desk.rights`."""

from typing import Final, Literal

Role = Literal["viewer", "approver", "operator", "admin"]
ROLES: Final[tuple[Role, ...]] = ("viewer", "approver", "operator", "admin")
