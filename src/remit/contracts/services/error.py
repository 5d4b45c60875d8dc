"""How the desk tells of a problem. In a module of its own: contracts that the desk's answers hold need it too."""

from pydantic import Field

from remit.contracts.base import Contract, Text
from remit.core.errors import Reason, RemitError


class ErrorTold(Contract):
    """Why something was refused or failed: the word for it, what, where, and what to do next. Masked."""

    code: Reason = Field(strict=False)
    what: Text
    where: Text
    next_step: Text


def told_error(problem: RemitError) -> ErrorTold:
    return ErrorTold(code=problem.reason, what=problem.what, where=problem.where, next_step=problem.next_step)
