"""What users ask for in words: from an utterance to one governed simulation. The core decides and never acts itself.

finder, catalogue, binding   which simulation is meant, what there is, and what its fields are filled with
access, confirmation         who may, and whether the user has confirmed
gates, planner, core         the decision, the envelope that follows from it, and the goal's whole course
simulation_executor          the only place that dispatches; `actions` runs what is bound, and has it signed
trace, replay, rollback      what was decided, decided again, and undone
"""
