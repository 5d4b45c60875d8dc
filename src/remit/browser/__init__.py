"""A real Chromium without a network of its own, and the proxy that is its only connection and can hold every request.

operation           the engine's steps for one browser action; `request_operation` has them for one held request
service             the browser of one workspace: actions, approvals, results
sessions, driver    the sessions of Chromium, and the calls that an action may make on one
gate, held_requests which requests wait for a person, and their outcomes
typed_secrets       which values an agent typed, so that they are masked by place and kind
chromium, proxy     Chromium itself; the proxy
model               requests, navigation, form fields, masking (pure)
"""
