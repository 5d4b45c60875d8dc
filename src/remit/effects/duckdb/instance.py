"""The one DuckDB of a sandboxed process, made before the walls close: opening an instance looks at the machine.

One thread, no file on the side, no extension, no setting from outside. Each child opens its database in it.
"""

from typing import Final

import duckdb

ENGINE: Final = duckdb.connect(
    ":memory:",
    config={
        # Without a second thread nothing has to be cloned, which the sandbox would refuse.
        "threads": 1,
        "async_threads": 0,
        "memory_limit": "300MB",
        "temp_directory": "",
        "autoload_known_extensions": False,
        "autoinstall_known_extensions": False,
        "allow_community_extensions": False,
        "allow_persistent_secrets": False,
        "secret_directory": "",
        "enable_external_file_cache": False,
        "home_directory": "/nonexistent",
    },
)
