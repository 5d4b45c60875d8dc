-- Capability tokens that were issued here: what they say, never the token itself.
CREATE TABLE browser_tokens (
  tenant_id TEXT NOT NULL,
  jti TEXT NOT NULL,
  sub TEXT NOT NULL,
  kid TEXT NOT NULL,
  issued_at TEXT NOT NULL,
  not_before TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  caps TEXT NOT NULL,
  constraints TEXT NOT NULL,
  token_digest TEXT NOT NULL,
  entry_seq INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, jti)
) STRICT, WITHOUT ROWID
--;;
-- Tokens that count no more, issued here or elsewhere, seen before or not.
CREATE TABLE browser_token_revocations (
  tenant_id TEXT NOT NULL,
  jti TEXT NOT NULL,
  revoked_at TEXT NOT NULL,
  actor TEXT NOT NULL,
  reason TEXT,
  entry_seq INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, jti)
) STRICT, WITHOUT ROWID
--;;
-- Which actions a token was used for: one row an action, however often it is asked for.
CREATE TABLE browser_token_uses (
  tenant_id TEXT NOT NULL,
  jti TEXT NOT NULL,
  action_id TEXT NOT NULL,
  used_at TEXT NOT NULL,
  PRIMARY KEY (tenant_id, jti, action_id)
) STRICT, WITHOUT ROWID
--;;
-- Questions to a person, each about one held request, and what became of them.
CREATE TABLE approvals (
  tenant_id TEXT NOT NULL,
  approval_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  token_jti TEXT NOT NULL,
  action_id TEXT NOT NULL,
  action_digest TEXT NOT NULL,
  request_digest TEXT NOT NULL,
  preview TEXT NOT NULL,
  screenshot TEXT,
  host TEXT NOT NULL,
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  requested_seq INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('PENDING', 'APPROVED', 'DENIED', 'EXPIRED', 'VOID', 'USED')),
  decided_by TEXT,
  decided_at TEXT,
  reason TEXT,
  entry_seq INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, approval_id),
  CHECK (decided_by IS NOT NULL OR state NOT IN ('APPROVED', 'DENIED', 'USED'))
) STRICT, WITHOUT ROWID
--;;
-- Those that can still change are few, and are looked for all the time.
CREATE INDEX approvals_open ON approvals (tenant_id, state, created_at) WHERE state IN ('PENDING', 'APPROVED')
--;;
CREATE INDEX approvals_newest ON approvals (tenant_id, created_at)
--;;
CREATE TRIGGER browser_tokens_no_update BEFORE UPDATE ON browser_tokens
BEGIN SELECT RAISE(ABORT, 'browser_tokens is append-only'); END
--;;
CREATE TRIGGER browser_tokens_no_delete BEFORE DELETE ON browser_tokens
BEGIN SELECT RAISE(ABORT, 'browser_tokens is append-only'); END
--;;
CREATE TRIGGER browser_tokens_no_replace BEFORE INSERT ON browser_tokens
WHEN EXISTS (SELECT 1 FROM browser_tokens WHERE tenant_id = NEW.tenant_id AND jti = NEW.jti)
BEGIN SELECT RAISE(ABORT, 'browser_tokens is append-only'); END
--;;
CREATE TRIGGER browser_token_revocations_no_update BEFORE UPDATE ON browser_token_revocations
BEGIN SELECT RAISE(ABORT, 'browser_token_revocations is append-only'); END
--;;
CREATE TRIGGER browser_token_revocations_no_delete BEFORE DELETE ON browser_token_revocations
BEGIN SELECT RAISE(ABORT, 'browser_token_revocations is append-only'); END
--;;
CREATE TRIGGER browser_token_revocations_no_replace BEFORE INSERT ON browser_token_revocations
WHEN EXISTS (SELECT 1 FROM browser_token_revocations WHERE tenant_id = NEW.tenant_id AND jti = NEW.jti)
BEGIN SELECT RAISE(ABORT, 'browser_token_revocations is append-only'); END
--;;
CREATE TRIGGER browser_token_uses_no_update BEFORE UPDATE ON browser_token_uses
BEGIN SELECT RAISE(ABORT, 'browser_token_uses is append-only'); END
--;;
CREATE TRIGGER browser_token_uses_no_delete BEFORE DELETE ON browser_token_uses
BEGIN SELECT RAISE(ABORT, 'browser_token_uses is append-only'); END
--;;
CREATE TRIGGER browser_token_uses_no_replace BEFORE INSERT ON browser_token_uses
WHEN EXISTS (
  SELECT 1 FROM browser_token_uses
  WHERE tenant_id = NEW.tenant_id AND jti = NEW.jti AND action_id = NEW.action_id)
BEGIN SELECT RAISE(ABORT, 'browser_token_uses is append-only'); END
--;;
CREATE TRIGGER approvals_no_delete BEFORE DELETE ON approvals
BEGIN SELECT RAISE(ABORT, 'approvals is append-only'); END
--;;
CREATE TRIGGER approvals_no_replace BEFORE INSERT ON approvals
WHEN EXISTS (SELECT 1 FROM approvals WHERE tenant_id = NEW.tenant_id AND approval_id = NEW.approval_id)
BEGIN SELECT RAISE(ABORT, 'approvals is append-only'); END
--;;
-- A question begins as one, and the ledger says so.
CREATE TRIGGER approvals_evidence_insert BEFORE INSERT ON approvals
WHEN NEW.state <> 'PENDING' OR NEW.entry_seq <> NEW.requested_seq OR NEW.decided_by IS NOT NULL
  OR NEW.decided_at IS NOT NULL
  OR NOT EXISTS (
    SELECT 1 FROM ledger_entries AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.seq = NEW.entry_seq AND l.kind = 'approval.requested')
BEGIN SELECT RAISE(ABORT, 'append-only evidence is missing for this question'); END
--;;
-- What was asked never changes; the state goes one way, and each step stands in the ledger.
CREATE TRIGGER approvals_evidence_update BEFORE UPDATE ON approvals
WHEN NEW.tenant_id <> OLD.tenant_id OR NEW.approval_id <> OLD.approval_id OR NEW.agent_id <> OLD.agent_id
  OR NEW.token_jti <> OLD.token_jti OR NEW.action_id <> OLD.action_id OR NEW.action_digest <> OLD.action_digest
  OR NEW.request_digest <> OLD.request_digest OR NEW.preview <> OLD.preview
  OR NEW.screenshot IS NOT OLD.screenshot OR NEW.host <> OLD.host OR NEW.created_at <> OLD.created_at
  OR NEW.expires_at <> OLD.expires_at OR NEW.requested_seq <> OLD.requested_seq OR NEW.entry_seq <= OLD.entry_seq
  OR (OLD.state = 'APPROVED' AND (NEW.decided_by IS NOT OLD.decided_by OR NEW.decided_at IS NOT OLD.decided_at))
  OR NOT (
    (OLD.state = 'PENDING' AND NEW.state IN ('APPROVED', 'DENIED', 'EXPIRED', 'VOID'))
    OR (OLD.state = 'APPROVED' AND NEW.state IN ('USED', 'EXPIRED', 'VOID')))
  OR NOT EXISTS (
    SELECT 1 FROM ledger_entries AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.seq = NEW.entry_seq AND l.kind = CASE NEW.state
      WHEN 'APPROVED' THEN 'approval.approved' WHEN 'DENIED' THEN 'approval.denied'
      WHEN 'EXPIRED' THEN 'approval.expired' WHEN 'VOID' THEN 'approval.voided' ELSE 'approval.used' END)
BEGIN SELECT RAISE(ABORT, 'an approval is append-only but for its state'); END
