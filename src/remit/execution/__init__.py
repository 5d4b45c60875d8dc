"""The engine: the fixed sequence of steps that every request takes, the journal of one request, and recovery.

engine      the steps, and `Operation`, which implements them for one kind of request
journal     the ledger entries of one request, and the claim that makes it happen once
recovery    finishes or undoes interrupted requests
decision    the decision of a policy, with its reasons
"""
