from tests.support.store_fixtures import database_url, dialect, empty_store, store, store_url, world

__all__ = ["database_url", "dialect", "empty_store", "store", "store_url", "world"]
