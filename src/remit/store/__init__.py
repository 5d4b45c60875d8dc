"""Where durable rows live: SQLite by default, PostgreSQL for many hosts, behind one small interface.

SQL is written once, with `?` for parameters, in the dialect both databases share; what they do not share (locks,
triggers, grants) is in the two connection classes and the migrations. Opening a store never changes its tables:
`migrate` does, on request.
"""
