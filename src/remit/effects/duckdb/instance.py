"""The one DuckDB instance of a sandboxed process.

It is made before the sandbox closes, because opening an instance reads facts about the machine. It has one thread, no
temporary files, no extensions and no settings from outside. Each child opens its database in it.
"""

from typing import Final

import duckdb

ENGINE: Final = duckdb.connect(
    ":memory:",
    config={
        # The sandbox refuses to start a second thread.
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
