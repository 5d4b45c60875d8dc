-- The preview of each proposed plan, as people are shown it: computed when the plan was proposed, or again later by a
-- recorded act. The document comes last: whoever only asks whether there is one never reads it.
CREATE TABLE proposal_previews (
  tenant_id TEXT NOT NULL,
  proposal_id TEXT NOT NULL,
  preview_digest TEXT NOT NULL,
  document_digest TEXT NOT NULL,
  computed_by TEXT NOT NULL,
  computed_at TEXT NOT NULL,
  entry_seq INTEGER NOT NULL,
  document TEXT,
  PRIMARY KEY (tenant_id, proposal_id)
) STRICT
--;;
CREATE TRIGGER proposal_previews_no_delete BEFORE DELETE ON proposal_previews
BEGIN SELECT RAISE(ABORT, 'proposal_previews is append-only'); END
--;;
CREATE TRIGGER proposal_previews_no_replace BEFORE INSERT ON proposal_previews
WHEN EXISTS (SELECT 1 FROM proposal_previews WHERE tenant_id = NEW.tenant_id AND proposal_id = NEW.proposal_id)
BEGIN SELECT RAISE(ABORT, 'proposal_previews is append-only'); END
--;;
-- A preview is stored with the entry of the ledger that records its digest.
CREATE TRIGGER proposal_previews_evidence_insert BEFORE INSERT ON proposal_previews
WHEN NEW.document IS NULL
  OR NOT EXISTS (
    SELECT 1 FROM ledger_entries AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.seq = NEW.entry_seq AND l.correlation_id = NEW.proposal_id
      AND l.kind IN ('proposal.made', 'proposal.previewed'))
BEGIN SELECT RAISE(ABORT, 'append-only evidence is missing for this preview'); END
--;;
-- It is replaced by a later one that the ledger records, and its document is removed when the plan's text is.
CREATE TRIGGER proposal_previews_evidence_update BEFORE UPDATE ON proposal_previews
WHEN NEW.tenant_id <> OLD.tenant_id OR NEW.proposal_id <> OLD.proposal_id
  OR NOT (
    (NEW.entry_seq > OLD.entry_seq AND NEW.document IS NOT NULL AND EXISTS (
      SELECT 1 FROM ledger_entries AS l
      WHERE l.tenant_id = NEW.tenant_id AND l.seq = NEW.entry_seq AND l.correlation_id = NEW.proposal_id
        AND l.kind = 'proposal.previewed'))
    OR (NEW.entry_seq = OLD.entry_seq AND NEW.preview_digest = OLD.preview_digest
      AND NEW.document_digest = OLD.document_digest AND NEW.computed_by = OLD.computed_by
      AND NEW.computed_at = OLD.computed_at AND NEW.document IS NULL AND EXISTS (
        SELECT 1 FROM plan_proposals AS p
        WHERE p.tenant_id = NEW.tenant_id AND p.proposal_id = NEW.proposal_id AND p.state IN ('EXPIRED', 'VOID'))))
BEGIN SELECT RAISE(ABORT, 'a preview is append-only but for a later one'); END
