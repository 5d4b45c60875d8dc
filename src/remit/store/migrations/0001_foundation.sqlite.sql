-- What happened: one hash chain a tenant. Every column but the hash itself is covered by the hash.
CREATE TABLE ledger_entries (
  tenant_id TEXT NOT NULL,
  seq INTEGER NOT NULL CHECK (seq > 0),
  entry_id TEXT NOT NULL,
  created_at TEXT NOT NULL,
  kind TEXT NOT NULL,
  correlation_id TEXT NOT NULL,
  task_id TEXT,
  capability_id TEXT,
  actor TEXT,
  payload TEXT NOT NULL,
  prev_hash TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (tenant_id, seq)
) STRICT
--;;
CREATE INDEX ledger_entries_correlation ON ledger_entries (tenant_id, correlation_id, seq)
--;;
-- Signed heads: one for each transaction and tenant, so that every committed entry is covered by a signature.
CREATE TABLE ledger_heads (
  tenant_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  hash TEXT NOT NULL,
  signed_at TEXT NOT NULL,
  key_id TEXT NOT NULL,
  signature TEXT NOT NULL,
  PRIMARY KEY (tenant_id, seq)
) STRICT, WITHOUT ROWID
--;;
-- Exactly once: who claimed a key, the way back from what it does, and what came of it. CLAIMED becomes DONE, once.
CREATE TABLE claims (
  tenant_id TEXT NOT NULL,
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  request_digest TEXT NOT NULL,
  correlation_id TEXT NOT NULL,
  checkpoint TEXT NOT NULL,
  owner TEXT NOT NULL,
  claim_token TEXT NOT NULL,
  claimed_at TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('CLAIMED', 'DONE')),
  result TEXT,
  finished_at TEXT,
  outcome_seq INTEGER,
  PRIMARY KEY (tenant_id, scope, key),
  CHECK ((state = 'DONE') = (result IS NOT NULL AND outcome_seq IS NOT NULL))
) STRICT, WITHOUT ROWID
--;;
-- What a crash left unfinished is found without reading all that was ever done.
CREATE INDEX claims_unfinished ON claims (scope) WHERE state = 'CLAIMED'
--;;
CREATE TABLE agent_execution_ledger (
  tenant_id TEXT NOT NULL,
  entry_seq INTEGER NOT NULL,
  event_id TEXT NOT NULL,
  source TEXT NOT NULL CHECK (source = 'PH1.AGENT_EXECUTION'),
  created_at TEXT NOT NULL,
  correlation_id TEXT NOT NULL,
  plan_id TEXT NOT NULL,
  step_id TEXT NOT NULL,
  event TEXT NOT NULL,
  simulation_id TEXT,
  idempotency_key TEXT NOT NULL,
  reason_code TEXT,
  finder_packet_ref TEXT,
  policy_snapshot_ref TEXT,
  catalog_snapshot_ref TEXT,
  artifact_fingerprint_bundle_ref TEXT,
  access_decision_ref TEXT,
  confirmation_parse_proof_ref TEXT,
  simulation_entry_ref TEXT,
  rollback_plan_ref TEXT,
  dispatch_decision_hash TEXT,
  PRIMARY KEY (tenant_id, entry_seq)
) STRICT
--;;
-- A step has several events and one dispatch: the spec's unique index, on the dispatch claim.
CREATE UNIQUE INDEX agent_execution_ledger_idempotency
  ON agent_execution_ledger (tenant_id, correlation_id, step_id, idempotency_key) WHERE event = 'DISPATCHED'
--;;
CREATE INDEX agent_execution_ledger_plan ON agent_execution_ledger (tenant_id, plan_id, step_id, entry_seq)
--;;
CREATE INDEX agent_execution_ledger_replay ON agent_execution_ledger (tenant_id, correlation_id, created_at)
--;;
CREATE TABLE agent_execution_confirmation_ledger (
  tenant_id TEXT NOT NULL,
  entry_seq INTEGER NOT NULL,
  confirmation_id TEXT NOT NULL,
  created_at TEXT NOT NULL,
  correlation_id TEXT NOT NULL,
  plan_id TEXT NOT NULL,
  step_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  verdict TEXT NOT NULL CHECK (verdict IN ('CONFIRMED', 'REFUSED', 'AMBIGUOUS')),
  accepted_token TEXT,
  language_tag TEXT NOT NULL,
  confirm_lexicon_version_ref TEXT NOT NULL,
  PRIMARY KEY (tenant_id, entry_seq)
) STRICT
--;;
CREATE INDEX agent_execution_confirmation_replay ON agent_execution_confirmation_ledger (tenant_id, correlation_id, created_at)
--;;
CREATE TABLE agent_execution_access_decision_ledger (
  tenant_id TEXT NOT NULL,
  entry_seq INTEGER NOT NULL,
  decision_id TEXT NOT NULL,
  created_at TEXT NOT NULL,
  correlation_id TEXT NOT NULL,
  plan_id TEXT NOT NULL,
  step_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  access_action TEXT NOT NULL,
  verdict TEXT NOT NULL CHECK (verdict IN ('ALLOWED', 'DENIED', 'APPROVAL_REQUIRED')),
  reason_code TEXT,
  policy_snapshot_ref TEXT NOT NULL,
  PRIMARY KEY (tenant_id, entry_seq)
) STRICT
--;;
CREATE INDEX agent_execution_access_replay ON agent_execution_access_decision_ledger (tenant_id, correlation_id, created_at)
--;;
-- A projection: rebuilt from agent_execution_ledger at any time. Its key is the spec's plan lookup index.
CREATE TABLE agent_execution_current (
  tenant_id TEXT NOT NULL,
  plan_id TEXT NOT NULL,
  step_id TEXT NOT NULL,
  correlation_id TEXT NOT NULL,
  event TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  reason_code TEXT,
  entry_seq INTEGER NOT NULL,
  updated_at TEXT NOT NULL,
  PRIMARY KEY (tenant_id, plan_id, step_id)
) STRICT, WITHOUT ROWID
--;;
CREATE TRIGGER ledger_entries_no_update BEFORE UPDATE ON ledger_entries
BEGIN SELECT RAISE(ABORT, 'ledger_entries is append-only'); END
--;;
CREATE TRIGGER ledger_entries_no_delete BEFORE DELETE ON ledger_entries
BEGIN SELECT RAISE(ABORT, 'ledger_entries is append-only'); END
--;;
-- INSERT OR REPLACE deletes without firing a delete trigger, whichever key it meets: the rowid is one too.
CREATE TRIGGER ledger_entries_no_replace BEFORE INSERT ON ledger_entries
WHEN EXISTS (SELECT 1 FROM ledger_entries WHERE tenant_id = NEW.tenant_id AND seq = NEW.seq)
  OR EXISTS (SELECT 1 FROM ledger_entries WHERE rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'ledger_entries is append-only'); END
--;;
CREATE TRIGGER ledger_heads_no_update BEFORE UPDATE ON ledger_heads
BEGIN SELECT RAISE(ABORT, 'ledger_heads is append-only'); END
--;;
CREATE TRIGGER ledger_heads_no_delete BEFORE DELETE ON ledger_heads
BEGIN SELECT RAISE(ABORT, 'ledger_heads is append-only'); END
--;;
CREATE TRIGGER ledger_heads_no_replace BEFORE INSERT ON ledger_heads
WHEN EXISTS (SELECT 1 FROM ledger_heads WHERE tenant_id = NEW.tenant_id AND seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'ledger_heads is append-only'); END
--;;
CREATE TRIGGER agent_execution_ledger_no_update BEFORE UPDATE ON agent_execution_ledger
BEGIN SELECT RAISE(ABORT, 'agent_execution_ledger is append-only'); END
--;;
CREATE TRIGGER agent_execution_ledger_no_delete BEFORE DELETE ON agent_execution_ledger
BEGIN SELECT RAISE(ABORT, 'agent_execution_ledger is append-only'); END
--;;
-- INSERT OR REPLACE deletes without firing a delete trigger, whichever key it meets: the rowid is one too.
CREATE TRIGGER agent_execution_ledger_no_replace BEFORE INSERT ON agent_execution_ledger
WHEN EXISTS (SELECT 1 FROM agent_execution_ledger WHERE tenant_id = NEW.tenant_id AND entry_seq = NEW.entry_seq)
  OR EXISTS (SELECT 1 FROM agent_execution_ledger WHERE rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'agent_execution_ledger is append-only'); END
--;;
CREATE TRIGGER agent_execution_confirmation_ledger_no_update BEFORE UPDATE ON agent_execution_confirmation_ledger
BEGIN SELECT RAISE(ABORT, 'agent_execution_confirmation_ledger is append-only'); END
--;;
CREATE TRIGGER agent_execution_confirmation_ledger_no_delete BEFORE DELETE ON agent_execution_confirmation_ledger
BEGIN SELECT RAISE(ABORT, 'agent_execution_confirmation_ledger is append-only'); END
--;;
-- INSERT OR REPLACE deletes without firing a delete trigger, whichever key it meets: the rowid is one too.
CREATE TRIGGER agent_execution_confirmation_ledger_no_replace BEFORE INSERT ON agent_execution_confirmation_ledger
WHEN EXISTS (SELECT 1 FROM agent_execution_confirmation_ledger WHERE tenant_id = NEW.tenant_id AND entry_seq = NEW.entry_seq)
  OR EXISTS (SELECT 1 FROM agent_execution_confirmation_ledger WHERE rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'agent_execution_confirmation_ledger is append-only'); END
--;;
CREATE TRIGGER agent_execution_access_decision_ledger_no_update BEFORE UPDATE ON agent_execution_access_decision_ledger
BEGIN SELECT RAISE(ABORT, 'agent_execution_access_decision_ledger is append-only'); END
--;;
CREATE TRIGGER agent_execution_access_decision_ledger_no_delete BEFORE DELETE ON agent_execution_access_decision_ledger
BEGIN SELECT RAISE(ABORT, 'agent_execution_access_decision_ledger is append-only'); END
--;;
-- INSERT OR REPLACE deletes without firing a delete trigger, whichever key it meets: the rowid is one too.
CREATE TRIGGER agent_execution_access_decision_ledger_no_replace BEFORE INSERT ON agent_execution_access_decision_ledger
WHEN EXISTS (SELECT 1 FROM agent_execution_access_decision_ledger WHERE tenant_id = NEW.tenant_id AND entry_seq = NEW.entry_seq)
  OR EXISTS (SELECT 1 FROM agent_execution_access_decision_ledger WHERE rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'agent_execution_access_decision_ledger is append-only'); END
--;;
CREATE TRIGGER agent_execution_ledger_one_dispatch BEFORE INSERT ON agent_execution_ledger
WHEN NEW.event = 'DISPATCHED' AND EXISTS (
  SELECT 1 FROM agent_execution_ledger
  WHERE tenant_id = NEW.tenant_id AND correlation_id = NEW.correlation_id AND step_id = NEW.step_id
    AND idempotency_key = NEW.idempotency_key AND event = 'DISPATCHED')
BEGIN SELECT RAISE(ABORT, 'this step was dispatched before'); END
--;;
CREATE TRIGGER claims_finish_once BEFORE UPDATE ON claims
WHEN OLD.state <> 'CLAIMED' OR NEW.tenant_id <> OLD.tenant_id OR NEW.scope <> OLD.scope OR NEW.key <> OLD.key
  OR NEW.request_digest <> OLD.request_digest OR NEW.correlation_id <> OLD.correlation_id
  OR NEW.checkpoint <> OLD.checkpoint
BEGIN SELECT RAISE(ABORT, 'a finished claim is append-only'); END
--;;
CREATE TRIGGER claims_no_replace BEFORE INSERT ON claims
WHEN EXISTS (SELECT 1 FROM claims WHERE tenant_id = NEW.tenant_id AND scope = NEW.scope AND key = NEW.key)
BEGIN SELECT RAISE(ABORT, 'claims is append-only'); END
--;;
CREATE TRIGGER claims_no_delete BEFORE DELETE ON claims
BEGIN SELECT RAISE(ABORT, 'claims is append-only'); END
--;;
-- No silent transitions: the projection may only repeat what the ledger says.
CREATE TRIGGER agent_execution_current_evidence_insert BEFORE INSERT ON agent_execution_current
WHEN NOT EXISTS (
    SELECT 1 FROM agent_execution_ledger AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.entry_seq = NEW.entry_seq AND l.plan_id = NEW.plan_id
      AND l.step_id = NEW.step_id AND l.event = NEW.event AND l.correlation_id = NEW.correlation_id
      AND l.idempotency_key = NEW.idempotency_key)
BEGIN SELECT RAISE(ABORT, 'append-only evidence is missing for this transition'); END
--;;
-- No silent transitions: the projection may only repeat what the ledger says.
CREATE TRIGGER agent_execution_current_evidence_update BEFORE UPDATE ON agent_execution_current
WHEN NOT EXISTS (
    SELECT 1 FROM agent_execution_ledger AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.entry_seq = NEW.entry_seq AND l.plan_id = NEW.plan_id
      AND l.step_id = NEW.step_id AND l.event = NEW.event AND l.correlation_id = NEW.correlation_id
      AND l.idempotency_key = NEW.idempotency_key)
BEGIN SELECT RAISE(ABORT, 'append-only evidence is missing for this transition'); END
