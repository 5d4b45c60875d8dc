-- The preview of each proposed plan, as people are shown it: computed when the plan was proposed, or again later by a
-- recorded act. The document comes last: whoever only asks whether there is one never reads it.
CREATE TABLE proposal_previews (
  tenant_id TEXT COLLATE "C" NOT NULL,
  proposal_id TEXT COLLATE "C" NOT NULL,
  preview_digest TEXT COLLATE "C" NOT NULL,
  document_digest TEXT COLLATE "C" NOT NULL,
  computed_by TEXT COLLATE "C" NOT NULL,
  computed_at TEXT COLLATE "C" NOT NULL,
  entry_seq BIGINT NOT NULL,
  document TEXT COLLATE "C",
  PRIMARY KEY (tenant_id, proposal_id)
)
--;;
CREATE TRIGGER proposal_previews_no_delete BEFORE DELETE ON proposal_previews
  FOR EACH ROW EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER proposal_previews_no_truncate BEFORE TRUNCATE ON proposal_previews
  FOR EACH STATEMENT EXECUTE FUNCTION remit_append_only()
--;;
-- A preview is stored with the entry of the ledger that records its digest. It is replaced by a later one that the
-- ledger records, and its document is removed when the plan's text is.
CREATE FUNCTION remit_preview_evidence() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.tenant_id <> OLD.tenant_id OR NEW.proposal_id <> OLD.proposal_id THEN
      RAISE EXCEPTION 'a preview is append-only but for a later one' USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.entry_seq = OLD.entry_seq AND NEW.preview_digest = OLD.preview_digest
      AND NEW.document_digest = OLD.document_digest AND NEW.computed_by = OLD.computed_by
      AND NEW.computed_at = OLD.computed_at AND NEW.document IS NULL AND EXISTS (
        SELECT 1 FROM plan_proposals AS p
        WHERE p.tenant_id = NEW.tenant_id AND p.proposal_id = NEW.proposal_id AND p.state IN ('EXPIRED', 'VOID')) THEN
      RETURN NEW;
    END IF;
    IF NEW.entry_seq <= OLD.entry_seq THEN
      RAISE EXCEPTION 'a preview is append-only but for a later one' USING ERRCODE = 'restrict_violation';
    END IF;
  END IF;
  IF NEW.document IS NULL OR NOT EXISTS (
    SELECT 1 FROM ledger_entries AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.seq = NEW.entry_seq AND l.correlation_id = NEW.proposal_id
      AND (l.kind = 'proposal.previewed' OR (l.kind = 'proposal.made' AND TG_OP = 'INSERT'))) THEN
    RAISE EXCEPTION 'append-only evidence is missing for this preview' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$
--;;
CREATE TRIGGER proposal_previews_evidence BEFORE INSERT OR UPDATE ON proposal_previews
  FOR EACH ROW EXECUTE FUNCTION remit_preview_evidence()
