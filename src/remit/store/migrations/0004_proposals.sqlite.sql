-- Plans that somebody proposed, the answers, and what was signed for them. The text of a plan comes last: a list of
-- proposals never reads it.
CREATE TABLE plan_proposals (
  tenant_id TEXT NOT NULL,
  proposal_id TEXT NOT NULL,
  plan_id TEXT NOT NULL,
  plan_digest TEXT NOT NULL,
  title TEXT NOT NULL,
  risk TEXT NOT NULL,
  proposed_by TEXT NOT NULL,
  token_jti TEXT,
  note TEXT,
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  proposed_seq INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('PENDING', 'APPROVED', 'DENIED', 'EXPIRED', 'VOID')),
  decided_by TEXT,
  decided_at TEXT,
  reason TEXT,
  envelope_id TEXT,
  envelope TEXT,
  entry_seq INTEGER NOT NULL,
  plan TEXT,
  PRIMARY KEY (tenant_id, proposal_id),
  CHECK (decided_by IS NOT NULL OR state NOT IN ('APPROVED', 'DENIED')),
  CHECK ((envelope_id IS NULL) = (envelope IS NULL)),
  CHECK (envelope_id IS NOT NULL OR state <> 'APPROVED')
) STRICT
--;;
-- Those that wait are few, and are looked for all the time.
CREATE INDEX plan_proposals_pending ON plan_proposals (tenant_id, created_at) WHERE state = 'PENDING'
--;;
CREATE INDEX plan_proposals_token ON plan_proposals (tenant_id, token_jti) WHERE token_jti IS NOT NULL
--;;
CREATE INDEX plan_proposals_newest ON plan_proposals (tenant_id, created_at, proposal_id)
--;;
CREATE INDEX plan_proposals_by ON plan_proposals (tenant_id, proposed_by, created_at, proposal_id)
--;;
CREATE UNIQUE INDEX plan_proposals_envelope ON plan_proposals (tenant_id, envelope_id) WHERE envelope_id IS NOT NULL
--;;
CREATE TRIGGER plan_proposals_no_delete BEFORE DELETE ON plan_proposals
BEGIN SELECT RAISE(ABORT, 'plan_proposals is append-only'); END
--;;
CREATE TRIGGER plan_proposals_no_replace BEFORE INSERT ON plan_proposals
WHEN EXISTS (SELECT 1 FROM plan_proposals WHERE tenant_id = NEW.tenant_id AND proposal_id = NEW.proposal_id)
BEGIN SELECT RAISE(ABORT, 'plan_proposals is append-only'); END
--;;
-- A proposal begins as one, and the ledger says so.
CREATE TRIGGER plan_proposals_evidence_insert BEFORE INSERT ON plan_proposals
WHEN NEW.state <> 'PENDING' OR NEW.entry_seq <> NEW.proposed_seq OR NEW.decided_by IS NOT NULL
  OR NEW.decided_at IS NOT NULL OR NEW.envelope_id IS NOT NULL OR NEW.plan IS NULL
  OR NOT EXISTS (
    SELECT 1 FROM ledger_entries AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.seq = NEW.entry_seq AND l.kind = 'proposal.made'
      AND l.correlation_id = NEW.proposal_id)
BEGIN SELECT RAISE(ABORT, 'append-only evidence is missing for this proposal'); END
--;;
-- What was proposed never changes; the state goes one way, and each step stands in the ledger. The text of a plan goes
-- when nothing can come of it any more and nobody has said no to it.
CREATE TRIGGER plan_proposals_evidence_update BEFORE UPDATE ON plan_proposals
WHEN NEW.tenant_id <> OLD.tenant_id OR NEW.proposal_id <> OLD.proposal_id OR NEW.plan_id <> OLD.plan_id
  OR NEW.plan_digest <> OLD.plan_digest OR NEW.title <> OLD.title OR NEW.risk <> OLD.risk
  OR NEW.proposed_by <> OLD.proposed_by OR NEW.token_jti IS NOT OLD.token_jti OR NEW.note IS NOT OLD.note
  OR NEW.created_at <> OLD.created_at OR NEW.expires_at <> OLD.expires_at OR NEW.proposed_seq <> OLD.proposed_seq
  OR NEW.entry_seq <= OLD.entry_seq
  OR (NEW.plan IS NOT OLD.plan AND NOT (NEW.plan IS NULL AND NEW.state IN ('EXPIRED', 'VOID')))
  OR (OLD.state = 'APPROVED' AND (NEW.decided_by IS NOT OLD.decided_by OR NEW.decided_at IS NOT OLD.decided_at
    OR NEW.envelope_id IS NOT OLD.envelope_id OR NEW.envelope IS NOT OLD.envelope))
  OR (OLD.state = 'PENDING' AND NEW.state <> 'APPROVED' AND NEW.envelope_id IS NOT NULL)
  OR NOT (
    (OLD.state = 'PENDING' AND NEW.state IN ('APPROVED', 'DENIED', 'EXPIRED', 'VOID'))
    OR (OLD.state = 'APPROVED' AND NEW.state = 'VOID'))
  OR NOT EXISTS (
    SELECT 1 FROM ledger_entries AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.seq = NEW.entry_seq AND l.correlation_id = NEW.proposal_id
      AND l.kind = CASE NEW.state
        WHEN 'APPROVED' THEN 'proposal.approved' WHEN 'DENIED' THEN 'proposal.denied'
        WHEN 'EXPIRED' THEN 'proposal.expired' ELSE 'proposal.voided' END)
BEGIN SELECT RAISE(ABORT, 'a proposal is append-only but for its state'); END
