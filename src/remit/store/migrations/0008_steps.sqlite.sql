-- Goals with several steps. `attempt`: the number of a later attempt of a step (2 and more). `effect`: whether a failed
-- attempt surely had no effect. `outputs_ref`: the document with the values that later steps can use.
ALTER TABLE agent_execution_ledger ADD COLUMN attempt TEXT
--;;
ALTER TABLE agent_execution_ledger ADD COLUMN effect TEXT CHECK (effect IN ('NONE', 'UNKNOWN'))
--;;
ALTER TABLE agent_execution_ledger ADD COLUMN outputs_ref TEXT
--;;
-- The first attempt of a step is its one dispatch; each later one is a row of its own under the same key.
CREATE UNIQUE INDEX agent_execution_ledger_attempts
  ON agent_execution_ledger (tenant_id, correlation_id, step_id, idempotency_key, attempt) WHERE event = 'RETRIED'
--;;
-- The goals with several steps that have not ended, so that another process can continue them.
CREATE INDEX agent_execution_current_started
  ON agent_execution_current (tenant_id, correlation_id) WHERE step_id = 'goal' AND event = 'STARTED'
--;;
-- The questions whether such a goal is rolled back, for the same reason.
CREATE INDEX agent_execution_current_undone
  ON agent_execution_current (tenant_id, correlation_id) WHERE step_id > 'goal-' AND step_id < 'goal.'
