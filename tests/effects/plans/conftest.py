"""Plans carried out by the effects themselves, in this process."""

from tests.effects.tasks.conftest import no_umask

__all__ = ["no_umask"]
