-- What happened: one hash chain a tenant. Every column but the hash itself is covered by the hash.
CREATE TABLE ledger_entries (
  tenant_id TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL CHECK (seq > 0),
  entry_id TEXT COLLATE "C" NOT NULL,
  created_at TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  correlation_id TEXT COLLATE "C" NOT NULL,
  task_id TEXT COLLATE "C",
  capability_id TEXT COLLATE "C",
  actor TEXT COLLATE "C",
  payload TEXT COLLATE "C" NOT NULL,
  prev_hash TEXT COLLATE "C" NOT NULL,
  hash TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, seq)
)
--;;
CREATE INDEX ledger_entries_correlation ON ledger_entries (tenant_id, correlation_id, seq)
--;;
-- Signed heads: one for each transaction and tenant, so that every committed entry is covered by a signature.
CREATE TABLE ledger_heads (
  tenant_id TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  hash TEXT COLLATE "C" NOT NULL,
  signed_at TEXT COLLATE "C" NOT NULL,
  key_id TEXT COLLATE "C" NOT NULL,
  signature TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, seq)
)
--;;
-- Exactly once: who claimed a key, the way back from what it does, and what came of it. CLAIMED becomes DONE, once.
CREATE TABLE claims (
  tenant_id TEXT COLLATE "C" NOT NULL,
  scope TEXT COLLATE "C" NOT NULL,
  key TEXT COLLATE "C" NOT NULL,
  request_digest TEXT COLLATE "C" NOT NULL,
  correlation_id TEXT COLLATE "C" NOT NULL,
  checkpoint TEXT COLLATE "C" NOT NULL,
  owner TEXT COLLATE "C" NOT NULL,
  claim_token TEXT COLLATE "C" NOT NULL,
  claimed_at TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL CHECK (state IN ('CLAIMED', 'DONE')),
  result TEXT COLLATE "C",
  finished_at TEXT COLLATE "C",
  outcome_seq BIGINT,
  PRIMARY KEY (tenant_id, scope, key),
  CHECK ((state = 'DONE') = (result IS NOT NULL AND outcome_seq IS NOT NULL))
)
--;;
-- What a crash left unfinished is found without reading all that was ever done.
CREATE INDEX claims_unfinished ON claims (scope) WHERE state = 'CLAIMED'
--;;
CREATE TABLE agent_execution_ledger (
  tenant_id TEXT COLLATE "C" NOT NULL,
  entry_seq BIGINT NOT NULL,
  event_id TEXT COLLATE "C" NOT NULL,
  source TEXT COLLATE "C" NOT NULL CHECK (source = 'PH1.AGENT_EXECUTION'),
  created_at TEXT COLLATE "C" NOT NULL,
  correlation_id TEXT COLLATE "C" NOT NULL,
  plan_id TEXT COLLATE "C" NOT NULL,
  step_id TEXT COLLATE "C" NOT NULL,
  event TEXT COLLATE "C" NOT NULL,
  simulation_id TEXT COLLATE "C",
  idempotency_key TEXT COLLATE "C" NOT NULL,
  reason_code TEXT COLLATE "C",
  finder_packet_ref TEXT COLLATE "C",
  policy_snapshot_ref TEXT COLLATE "C",
  catalog_snapshot_ref TEXT COLLATE "C",
  artifact_fingerprint_bundle_ref TEXT COLLATE "C",
  access_decision_ref TEXT COLLATE "C",
  confirmation_parse_proof_ref TEXT COLLATE "C",
  simulation_entry_ref TEXT COLLATE "C",
  rollback_plan_ref TEXT COLLATE "C",
  dispatch_decision_hash TEXT COLLATE "C",
  PRIMARY KEY (tenant_id, entry_seq)
)
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
  tenant_id TEXT COLLATE "C" NOT NULL,
  entry_seq BIGINT NOT NULL,
  confirmation_id TEXT COLLATE "C" NOT NULL,
  created_at TEXT COLLATE "C" NOT NULL,
  correlation_id TEXT COLLATE "C" NOT NULL,
  plan_id TEXT COLLATE "C" NOT NULL,
  step_id TEXT COLLATE "C" NOT NULL,
  user_id TEXT COLLATE "C" NOT NULL,
  verdict TEXT COLLATE "C" NOT NULL CHECK (verdict IN ('CONFIRMED', 'REFUSED', 'AMBIGUOUS')),
  accepted_token TEXT COLLATE "C",
  language_tag TEXT COLLATE "C" NOT NULL,
  confirm_lexicon_version_ref TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, entry_seq)
)
--;;
CREATE INDEX agent_execution_confirmation_replay ON agent_execution_confirmation_ledger (tenant_id, correlation_id, created_at)
--;;
CREATE TABLE agent_execution_access_decision_ledger (
  tenant_id TEXT COLLATE "C" NOT NULL,
  entry_seq BIGINT NOT NULL,
  decision_id TEXT COLLATE "C" NOT NULL,
  created_at TEXT COLLATE "C" NOT NULL,
  correlation_id TEXT COLLATE "C" NOT NULL,
  plan_id TEXT COLLATE "C" NOT NULL,
  step_id TEXT COLLATE "C" NOT NULL,
  user_id TEXT COLLATE "C" NOT NULL,
  access_action TEXT COLLATE "C" NOT NULL,
  verdict TEXT COLLATE "C" NOT NULL CHECK (verdict IN ('ALLOWED', 'DENIED', 'APPROVAL_REQUIRED')),
  reason_code TEXT COLLATE "C",
  policy_snapshot_ref TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, entry_seq)
)
--;;
CREATE INDEX agent_execution_access_replay ON agent_execution_access_decision_ledger (tenant_id, correlation_id, created_at)
--;;
-- A projection: rebuilt from agent_execution_ledger at any time. Its key is the spec's plan lookup index.
CREATE TABLE agent_execution_current (
  tenant_id TEXT COLLATE "C" NOT NULL,
  plan_id TEXT COLLATE "C" NOT NULL,
  step_id TEXT COLLATE "C" NOT NULL,
  correlation_id TEXT COLLATE "C" NOT NULL,
  event TEXT COLLATE "C" NOT NULL,
  idempotency_key TEXT COLLATE "C" NOT NULL,
  reason_code TEXT COLLATE "C",
  entry_seq BIGINT NOT NULL,
  updated_at TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, plan_id, step_id)
)
--;;
CREATE FUNCTION remit_append_only() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$
--;;
CREATE TRIGGER ledger_entries_no_change BEFORE UPDATE OR DELETE ON ledger_entries
  FOR EACH ROW EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER ledger_entries_no_truncate BEFORE TRUNCATE ON ledger_entries
  FOR EACH STATEMENT EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER ledger_heads_no_change BEFORE UPDATE OR DELETE ON ledger_heads
  FOR EACH ROW EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER ledger_heads_no_truncate BEFORE TRUNCATE ON ledger_heads
  FOR EACH STATEMENT EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER agent_execution_ledger_no_change BEFORE UPDATE OR DELETE ON agent_execution_ledger
  FOR EACH ROW EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER agent_execution_ledger_no_truncate BEFORE TRUNCATE ON agent_execution_ledger
  FOR EACH STATEMENT EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER agent_execution_confirmation_ledger_no_change BEFORE UPDATE OR DELETE ON agent_execution_confirmation_ledger
  FOR EACH ROW EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER agent_execution_confirmation_ledger_no_truncate BEFORE TRUNCATE ON agent_execution_confirmation_ledger
  FOR EACH STATEMENT EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER agent_execution_access_decision_ledger_no_change BEFORE UPDATE OR DELETE ON agent_execution_access_decision_ledger
  FOR EACH ROW EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER agent_execution_access_decision_ledger_no_truncate BEFORE TRUNCATE ON agent_execution_access_decision_ledger
  FOR EACH STATEMENT EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER claims_no_delete BEFORE DELETE ON claims
  FOR EACH ROW EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER claims_no_truncate BEFORE TRUNCATE ON claims
  FOR EACH STATEMENT EXECUTE FUNCTION remit_append_only()
--;;
CREATE FUNCTION remit_finish_once() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF OLD.state <> 'CLAIMED' OR NEW.tenant_id <> OLD.tenant_id OR NEW.scope <> OLD.scope OR NEW.key <> OLD.key
    OR NEW.request_digest <> OLD.request_digest OR NEW.correlation_id <> OLD.correlation_id
    OR NEW.checkpoint <> OLD.checkpoint THEN
    RAISE EXCEPTION 'a finished claim is append-only' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$
--;;
CREATE TRIGGER claims_finish_once BEFORE UPDATE ON claims
  FOR EACH ROW EXECUTE FUNCTION remit_finish_once()
--;;
-- Its tables are the ones of this schema, whatever the caller's search path says.
CREATE FUNCTION remit_transition_evidence() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF NOT EXISTS (
    SELECT 1 FROM agent_execution_ledger AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.entry_seq = NEW.entry_seq AND l.plan_id = NEW.plan_id
      AND l.step_id = NEW.step_id AND l.event = NEW.event AND l.correlation_id = NEW.correlation_id
      AND l.idempotency_key = NEW.idempotency_key) THEN
    RAISE EXCEPTION 'ledger evidence is missing for this transition' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$
--;;
-- No silent transitions: the projection may only repeat what the ledger says.
CREATE TRIGGER agent_execution_current_evidence BEFORE INSERT OR UPDATE ON agent_execution_current
  FOR EACH ROW EXECUTE FUNCTION remit_transition_evidence()
