-- Capability tokens that were issued here: what they say, never the token itself.
CREATE TABLE browser_tokens (
  tenant_id TEXT COLLATE "C" NOT NULL,
  jti TEXT COLLATE "C" NOT NULL,
  sub TEXT COLLATE "C" NOT NULL,
  kid TEXT COLLATE "C" NOT NULL,
  issued_at TEXT COLLATE "C" NOT NULL,
  not_before TEXT COLLATE "C" NOT NULL,
  expires_at TEXT COLLATE "C" NOT NULL,
  caps TEXT COLLATE "C" NOT NULL,
  constraints TEXT COLLATE "C" NOT NULL,
  token_digest TEXT COLLATE "C" NOT NULL,
  entry_seq BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, jti)
)
--;;
-- Tokens that count no more, issued here or elsewhere, seen before or not.
CREATE TABLE browser_token_revocations (
  tenant_id TEXT COLLATE "C" NOT NULL,
  jti TEXT COLLATE "C" NOT NULL,
  revoked_at TEXT COLLATE "C" NOT NULL,
  actor TEXT COLLATE "C" NOT NULL,
  reason TEXT COLLATE "C",
  entry_seq BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, jti)
)
--;;
-- Which actions a token was used for: one row an action, however often it is asked for.
CREATE TABLE browser_token_uses (
  tenant_id TEXT COLLATE "C" NOT NULL,
  jti TEXT COLLATE "C" NOT NULL,
  action_id TEXT COLLATE "C" NOT NULL,
  used_at TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, jti, action_id)
)
--;;
-- Questions to a person, each about one held request, and what became of them.
CREATE TABLE approvals (
  tenant_id TEXT COLLATE "C" NOT NULL,
  approval_id TEXT COLLATE "C" NOT NULL,
  agent_id TEXT COLLATE "C" NOT NULL,
  token_jti TEXT COLLATE "C" NOT NULL,
  action_id TEXT COLLATE "C" NOT NULL,
  action_digest TEXT COLLATE "C" NOT NULL,
  request_digest TEXT COLLATE "C" NOT NULL,
  preview TEXT COLLATE "C" NOT NULL,
  screenshot TEXT COLLATE "C",
  host TEXT COLLATE "C" NOT NULL,
  created_at TEXT COLLATE "C" NOT NULL,
  expires_at TEXT COLLATE "C" NOT NULL,
  requested_seq BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL CHECK (state IN ('PENDING', 'APPROVED', 'DENIED', 'EXPIRED', 'VOID', 'USED')),
  decided_by TEXT COLLATE "C",
  decided_at TEXT COLLATE "C",
  reason TEXT COLLATE "C",
  entry_seq BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, approval_id),
  CHECK (decided_by IS NOT NULL OR state NOT IN ('APPROVED', 'DENIED', 'USED'))
)
--;;
-- Those that can still change are few, and are looked for all the time.
CREATE INDEX approvals_open ON approvals (tenant_id, state, created_at) WHERE state IN ('PENDING', 'APPROVED')
--;;
CREATE INDEX approvals_newest ON approvals (tenant_id, created_at)
--;;
CREATE TRIGGER browser_tokens_no_change BEFORE UPDATE OR DELETE ON browser_tokens
  FOR EACH ROW EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER browser_tokens_no_truncate BEFORE TRUNCATE ON browser_tokens
  FOR EACH STATEMENT EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER browser_token_revocations_no_change BEFORE UPDATE OR DELETE ON browser_token_revocations
  FOR EACH ROW EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER browser_token_revocations_no_truncate BEFORE TRUNCATE ON browser_token_revocations
  FOR EACH STATEMENT EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER browser_token_uses_no_change BEFORE UPDATE OR DELETE ON browser_token_uses
  FOR EACH ROW EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER browser_token_uses_no_truncate BEFORE TRUNCATE ON browser_token_uses
  FOR EACH STATEMENT EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER approvals_no_delete BEFORE DELETE ON approvals
  FOR EACH ROW EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER approvals_no_truncate BEFORE TRUNCATE ON approvals
  FOR EACH STATEMENT EXECUTE FUNCTION remit_append_only()
--;;
-- What was asked never changes; the state goes one way, and each step stands in the ledger.
CREATE FUNCTION remit_approval_evidence() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> 'PENDING' OR NEW.entry_seq <> NEW.requested_seq OR NEW.decided_by IS NOT NULL
      OR NEW.decided_at IS NOT NULL THEN
      RAISE EXCEPTION 'append-only evidence is missing for this question' USING ERRCODE = 'restrict_violation';
    END IF;
  ELSIF NEW.tenant_id <> OLD.tenant_id OR NEW.approval_id <> OLD.approval_id OR NEW.agent_id <> OLD.agent_id
    OR NEW.token_jti <> OLD.token_jti OR NEW.action_id <> OLD.action_id OR NEW.action_digest <> OLD.action_digest
    OR NEW.request_digest <> OLD.request_digest OR NEW.preview <> OLD.preview
    OR NEW.screenshot IS DISTINCT FROM OLD.screenshot OR NEW.host <> OLD.host OR NEW.created_at <> OLD.created_at
    OR NEW.expires_at <> OLD.expires_at OR NEW.requested_seq <> OLD.requested_seq OR NEW.entry_seq <= OLD.entry_seq
    OR (OLD.state = 'APPROVED' AND (NEW.decided_by IS DISTINCT FROM OLD.decided_by
      OR NEW.decided_at IS DISTINCT FROM OLD.decided_at))
    OR NOT (
      (OLD.state = 'PENDING' AND NEW.state IN ('APPROVED', 'DENIED', 'EXPIRED', 'VOID'))
      OR (OLD.state = 'APPROVED' AND NEW.state IN ('USED', 'EXPIRED', 'VOID'))) THEN
    RAISE EXCEPTION 'an approval is append-only but for its state' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NOT EXISTS (
    SELECT 1 FROM ledger_entries AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.seq = NEW.entry_seq AND l.kind = CASE NEW.state
      WHEN 'PENDING' THEN 'approval.requested' WHEN 'APPROVED' THEN 'approval.approved'
      WHEN 'DENIED' THEN 'approval.denied' WHEN 'EXPIRED' THEN 'approval.expired'
      WHEN 'VOID' THEN 'approval.voided' ELSE 'approval.used' END) THEN
    RAISE EXCEPTION 'append-only evidence is missing for this transition' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$
--;;
CREATE TRIGGER approvals_evidence BEFORE INSERT OR UPDATE ON approvals
  FOR EACH ROW EXECUTE FUNCTION remit_approval_evidence()
