-- Plans that somebody proposed, the answers, and what was signed for them. The text of a plan comes last: a list of
-- proposals never reads it.
CREATE TABLE plan_proposals (
  tenant_id TEXT COLLATE "C" NOT NULL,
  proposal_id TEXT COLLATE "C" NOT NULL,
  plan_id TEXT COLLATE "C" NOT NULL,
  plan_digest TEXT COLLATE "C" NOT NULL,
  title TEXT COLLATE "C" NOT NULL,
  risk TEXT COLLATE "C" NOT NULL,
  proposed_by TEXT COLLATE "C" NOT NULL,
  token_jti TEXT COLLATE "C",
  note TEXT COLLATE "C",
  created_at TEXT COLLATE "C" NOT NULL,
  expires_at TEXT COLLATE "C" NOT NULL,
  proposed_seq BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL CHECK (state IN ('PENDING', 'APPROVED', 'DENIED', 'EXPIRED', 'VOID')),
  decided_by TEXT COLLATE "C",
  decided_at TEXT COLLATE "C",
  reason TEXT COLLATE "C",
  envelope_id TEXT COLLATE "C",
  envelope TEXT COLLATE "C",
  entry_seq BIGINT NOT NULL,
  plan TEXT COLLATE "C",
  PRIMARY KEY (tenant_id, proposal_id),
  CHECK (decided_by IS NOT NULL OR state NOT IN ('APPROVED', 'DENIED')),
  CHECK ((envelope_id IS NULL) = (envelope IS NULL)),
  CHECK (envelope_id IS NOT NULL OR state <> 'APPROVED')
)
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
  FOR EACH ROW EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER plan_proposals_no_truncate BEFORE TRUNCATE ON plan_proposals
  FOR EACH STATEMENT EXECUTE FUNCTION remit_append_only()
--;;
-- What was proposed never changes; the state goes one way, and each step stands in the ledger. The text of a plan goes
-- when nothing can come of it any more and nobody has said no to it.
CREATE FUNCTION remit_proposal_evidence() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> 'PENDING' OR NEW.entry_seq <> NEW.proposed_seq OR NEW.decided_by IS NOT NULL
      OR NEW.decided_at IS NOT NULL OR NEW.envelope_id IS NOT NULL OR NEW.plan IS NULL THEN
      RAISE EXCEPTION 'append-only evidence is missing for this proposal' USING ERRCODE = 'restrict_violation';
    END IF;
  ELSIF NEW.tenant_id <> OLD.tenant_id OR NEW.proposal_id <> OLD.proposal_id OR NEW.plan_id <> OLD.plan_id
    OR NEW.plan_digest <> OLD.plan_digest OR NEW.title <> OLD.title OR NEW.risk <> OLD.risk
    OR NEW.proposed_by <> OLD.proposed_by OR NEW.token_jti IS DISTINCT FROM OLD.token_jti
    OR NEW.note IS DISTINCT FROM OLD.note OR NEW.created_at <> OLD.created_at OR NEW.expires_at <> OLD.expires_at
    OR NEW.proposed_seq <> OLD.proposed_seq OR NEW.entry_seq <= OLD.entry_seq
    OR (NEW.plan IS DISTINCT FROM OLD.plan AND NOT (NEW.plan IS NULL AND NEW.state IN ('EXPIRED', 'VOID')))
    OR (OLD.state = 'APPROVED' AND (NEW.decided_by IS DISTINCT FROM OLD.decided_by
      OR NEW.decided_at IS DISTINCT FROM OLD.decided_at OR NEW.envelope_id IS DISTINCT FROM OLD.envelope_id
      OR NEW.envelope IS DISTINCT FROM OLD.envelope))
    OR (OLD.state = 'PENDING' AND NEW.state <> 'APPROVED' AND NEW.envelope_id IS NOT NULL)
    OR NOT (
      (OLD.state = 'PENDING' AND NEW.state IN ('APPROVED', 'DENIED', 'EXPIRED', 'VOID'))
      OR (OLD.state = 'APPROVED' AND NEW.state = 'VOID')) THEN
    RAISE EXCEPTION 'a proposal is append-only but for its state' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NOT EXISTS (
    SELECT 1 FROM ledger_entries AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.seq = NEW.entry_seq AND l.correlation_id = NEW.proposal_id
      AND l.kind = CASE NEW.state
        WHEN 'PENDING' THEN 'proposal.made' WHEN 'APPROVED' THEN 'proposal.approved'
        WHEN 'DENIED' THEN 'proposal.denied' WHEN 'EXPIRED' THEN 'proposal.expired'
        ELSE 'proposal.voided' END) THEN
    RAISE EXCEPTION 'append-only evidence is missing for this transition' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$
--;;
CREATE TRIGGER plan_proposals_evidence BEFORE INSERT OR UPDATE ON plan_proposals
  FOR EACH ROW EXECUTE FUNCTION remit_proposal_evidence()
