from tests.store_fixtures import dialect, empty_store, store, store_url, world

__all__ = ["dialect", "empty_store", "store", "store_url", "world"]
