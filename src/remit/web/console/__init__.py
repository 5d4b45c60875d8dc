"""The console: pages for people, rendered on the server. Each asks the desk, and has no rule of its own.

templating  the one environment that pages are rendered in: escaped always, and nothing in it that cannot be seen
pages       who looks, what every page shows, the error pages
forms       what a person filled in: bounded, and only with the session's own csrf
confirming, confirm_words   what is asked once more before anything is decided or undone
router      all of the console, for the app
inbox, runs, ledger, tokens, catalogue, people, levels     one room of the console each
diffs, graphs, charts                                      what is drawn: pure, from data to places on the page
"""
