-- The stored previews of plans, by the digest that an approval names. `document` is what people see. `prepared` is what
-- `apply` needs besides the plan; it is removed when the outputs of the preview are. The entry of the ledger has the
-- digests of both, so a row proves nothing by itself. Rows that nothing refers to are removed by `remit prune`.
CREATE TABLE plan_previews (
  tenant_id TEXT NOT NULL,
  preview_digest TEXT NOT NULL,
  plan_id TEXT NOT NULL,
  plan_digest TEXT NOT NULL,
  config_digest TEXT NOT NULL,
  owner TEXT NOT NULL,
  document_digest TEXT NOT NULL,
  prepared_digest TEXT NOT NULL,
  output_bytes INTEGER NOT NULL,
  computed_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  kept_until TEXT NOT NULL,
  proposed_until TEXT NOT NULL,
  entry_seq INTEGER NOT NULL,
  document TEXT NOT NULL,
  prepared TEXT,
  PRIMARY KEY (tenant_id, preview_digest)
) STRICT
--;;
CREATE INDEX plan_previews_by_plan ON plan_previews (tenant_id, plan_digest)
--;;
CREATE TRIGGER plan_previews_evidence_insert BEFORE INSERT ON plan_previews
WHEN NOT EXISTS (
    SELECT 1 FROM ledger_entries AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.seq = NEW.entry_seq AND l.kind = 'plan.previewed')
BEGIN SELECT RAISE(ABORT, 'append-only evidence is missing for this preview'); END
