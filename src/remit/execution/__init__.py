"""The engine: the fixed sequence of steps that every request takes, the journal of one request, and recovery.

engine      the steps, and `Operation`: what they mean for one kind of request
journal     what the ledger is told at each step, and the claim that makes a request happen once
recovery    what a crash left, finished or undone
decision    the answer of a policy, with its reasons
"""
