"""The console: pages for people, rendered on the server. Each page calls the services and has no rules of its own.

templating      the environment that renders every page: escapes every value, makes invisible characters visible
pages           the viewer, what every page shows, the error pages
forms           submitted forms: bounded, and accepted only with the csrf token of the session
confirm_page, confirm   the confirmation before a decision or a rollback
router          all routes of the console, for the app
inbox, runs, ledger, tokens, catalogue, people, slo     one section of the console each
diffs, graphs, charts                                   layout of drawings: pure functions from data to positions
"""
