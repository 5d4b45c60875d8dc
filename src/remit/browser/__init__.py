"""A real Chromium without a network of its own, and the only way out of it, where every request can be held.

operation           the engine's steps for one browser action; `request_operation` for one held request
service             the browser of one workspace: actions, approvals, results
sessions, driver    the sessions of Chromium, and what an action may ask of one
gate, held_requests which requests wait for a person, and what becomes of them
typed_secrets       which values an agent typed, so that they are masked by place and kind
chromium, proxy     Chromium itself; the proxy that is its only way out
model               requests, navigation, form fields, masking (pure)
"""
