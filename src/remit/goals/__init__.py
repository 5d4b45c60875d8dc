"""Requests of users in their own words: from an utterance to one governed simulation.

The core decides and changes nothing itself.

finder, catalogue, binding   which simulation is meant, which simulations there are, and the values of its fields
access, confirmation         whether the user may run it, and whether the user has confirmed
gates, planner, core         the decision, the envelope that follows from it, and the whole course of the goal
simulation_executor          the only place that dispatches; `actions` runs the bound action and has its result signed
trace, replay, rollback      shows what was decided, makes the decision again, and undoes the effect
"""
