-- The stored previews of plans, by the digest that an approval names. `document` is what people see. `prepared` is what
-- `apply` needs besides the plan; it is removed when the outputs of the preview are. The entry of the ledger has the
-- digests of both, so a row proves nothing by itself. Rows that nothing refers to are removed by `remit prune`.
CREATE TABLE plan_previews (
  tenant_id TEXT COLLATE "C" NOT NULL,
  preview_digest TEXT COLLATE "C" NOT NULL,
  plan_id TEXT COLLATE "C" NOT NULL,
  plan_digest TEXT COLLATE "C" NOT NULL,
  config_digest TEXT COLLATE "C" NOT NULL,
  owner TEXT COLLATE "C" NOT NULL,
  document_digest TEXT COLLATE "C" NOT NULL,
  prepared_digest TEXT COLLATE "C" NOT NULL,
  output_bytes BIGINT NOT NULL,
  computed_at TEXT COLLATE "C" NOT NULL,
  expires_at TEXT COLLATE "C" NOT NULL,
  kept_until TEXT COLLATE "C" NOT NULL,
  proposed_until TEXT COLLATE "C" NOT NULL,
  entry_seq BIGINT NOT NULL,
  document TEXT COLLATE "C" NOT NULL,
  prepared TEXT COLLATE "C",
  PRIMARY KEY (tenant_id, preview_digest)
)
--;;
CREATE INDEX plan_previews_by_plan ON plan_previews (tenant_id, plan_digest)
--;;
CREATE FUNCTION remit_plan_preview_evidence() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF NOT EXISTS (
    SELECT 1 FROM ledger_entries AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.seq = NEW.entry_seq AND l.kind = 'plan.previewed') THEN
    RAISE EXCEPTION 'append-only evidence is missing for this preview' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$
--;;
CREATE TRIGGER plan_previews_evidence_insert BEFORE INSERT ON plan_previews
  FOR EACH ROW EXECUTE FUNCTION remit_plan_preview_evidence()
