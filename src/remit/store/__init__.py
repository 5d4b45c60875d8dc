"""The storage of durable rows: SQLite by default, PostgreSQL for many hosts, behind one small interface.

Each SQL statement is written once, with `?` for parameters, in the dialect that both databases share. Locks, triggers
and grants differ, so they are in the two connection classes and in the migrations. Opening a store never changes its
tables. `migrate` changes them, on request.
"""
