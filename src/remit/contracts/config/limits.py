"""The longest times, in seconds, that a plan or a configuration can set."""

from typing import Final

MAX_FILE_OPERATION_SECONDS: Final = 120
MAX_SCHEMA_UPDATE_SECONDS: Final = 60
MAX_SQL_SECONDS: Final = 300
MAX_PIPELINE_SECONDS: Final = 3_600
MAX_TASK_SECONDS: Final = 3_600
MAX_LOCK_SECONDS: Final = 60
