-- Entries of the ledger whose number is bounded, such as refusals: after the first ones of a caller they are counted.
-- One row for each caller and operation. An entry of the ledger states `stated` of the `counted` ones, and the database
-- refuses every change that is neither such a count nor backed by a later entry.
CREATE TABLE counted_entries (
  tenant_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  actor TEXT NOT NULL,
  operation TEXT NOT NULL,
  opened_at TEXT NOT NULL,
  ends_at TEXT NOT NULL,
  singles_left INTEGER NOT NULL,
  counted INTEGER NOT NULL,
  stated INTEGER NOT NULL,
  reasons TEXT NOT NULL,
  first_about TEXT,
  last_about TEXT,
  last_at TEXT,
  entry_seq INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, kind, actor, operation)
) STRICT
--;;
CREATE TRIGGER counted_entries_no_delete BEFORE DELETE ON counted_entries
BEGIN SELECT RAISE(ABORT, 'counted_entries is append-only'); END
--;;
CREATE TRIGGER counted_entries_no_replace BEFORE INSERT ON counted_entries
WHEN EXISTS (SELECT 1 FROM counted_entries WHERE tenant_id = NEW.tenant_id AND kind = NEW.kind
    AND actor = NEW.actor AND operation = NEW.operation)
BEGIN SELECT RAISE(ABORT, 'counted_entries is append-only'); END
--;;
CREATE TRIGGER counted_entries_evidence_insert BEFORE INSERT ON counted_entries
WHEN NOT EXISTS (
    SELECT 1 FROM ledger_entries AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.seq = NEW.entry_seq AND coalesce(l.actor, '') = NEW.actor)
BEGIN SELECT RAISE(ABORT, 'append-only evidence is missing for these counted entries'); END
--;;
CREATE TRIGGER counted_entries_evidence_update BEFORE UPDATE ON counted_entries
WHEN NEW.tenant_id <> OLD.tenant_id OR NEW.kind <> OLD.kind OR NEW.actor <> OLD.actor
  OR NEW.operation <> OLD.operation
  OR NOT (
    (NEW.entry_seq > OLD.entry_seq AND EXISTS (
      SELECT 1 FROM ledger_entries AS l
      WHERE l.tenant_id = NEW.tenant_id AND l.seq = NEW.entry_seq AND coalesce(l.actor, '') = NEW.actor))
    OR (NEW.entry_seq = OLD.entry_seq AND NEW.opened_at = OLD.opened_at AND NEW.ends_at = OLD.ends_at
      AND NEW.stated = OLD.stated AND NEW.counted >= OLD.counted))
BEGIN SELECT RAISE(ABORT, 'counted entries are append-only but for a higher count or a later entry'); END
