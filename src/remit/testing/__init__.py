"""For tests of executors written for Remit, and for measuring Remit itself.

`executor_contract.check_capability` tries a capability on a real workspace in a real sandbox, and says what is wrong
with it. `goal_load` and its neighbours put goals under load, for `remit slo`.
"""
