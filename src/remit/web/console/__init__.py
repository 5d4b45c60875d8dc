"""The console: pages for people, rendered on the server. Each page asks the services, and has no rule of its own.

templating      the one environment that pages are rendered in: escaped always, and nothing in it that cannot be seen
pages           who looks, what every page shows, the error pages
forms           what a person filled in: bounded, and only with the session's own csrf
confirm_page, confirm   what is asked once more before anything is decided or undone
router          all of the console, for the app
inbox, runs, ledger, tokens, catalogue, people, slo     one section of the console each
diffs, graphs, charts                                   what is drawn: pure, from data to places on the page
"""
