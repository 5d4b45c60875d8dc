-- Entries of the ledger whose number is bounded, such as refusals: after the first ones of a caller they are counted.
-- One row for each caller and operation. An entry of the ledger states `stated` of the `counted` ones, and the database
-- refuses every change that is neither such a count nor backed by a later entry.
CREATE TABLE counted_entries (
  tenant_id TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  actor TEXT COLLATE "C" NOT NULL,
  operation TEXT COLLATE "C" NOT NULL,
  opened_at TEXT COLLATE "C" NOT NULL,
  ends_at TEXT COLLATE "C" NOT NULL,
  singles_left BIGINT NOT NULL,
  counted BIGINT NOT NULL,
  stated BIGINT NOT NULL,
  reasons TEXT COLLATE "C" NOT NULL,
  first_about TEXT COLLATE "C",
  last_about TEXT COLLATE "C",
  last_at TEXT COLLATE "C",
  entry_seq BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, kind, actor, operation)
)
--;;
CREATE TRIGGER counted_entries_no_delete BEFORE DELETE ON counted_entries
  FOR EACH ROW EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER counted_entries_no_truncate BEFORE TRUNCATE ON counted_entries
  FOR EACH STATEMENT EXECUTE FUNCTION remit_append_only()
--;;
CREATE FUNCTION remit_counted_evidence() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.tenant_id <> OLD.tenant_id OR NEW.kind <> OLD.kind OR NEW.actor <> OLD.actor
      OR NEW.operation <> OLD.operation OR NEW.entry_seq < OLD.entry_seq THEN
      RAISE EXCEPTION 'counted entries are append-only but for a higher count or a later entry'
        USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.entry_seq = OLD.entry_seq THEN
      IF NEW.opened_at <> OLD.opened_at OR NEW.ends_at <> OLD.ends_at OR NEW.stated <> OLD.stated
        OR NEW.counted < OLD.counted THEN
        RAISE EXCEPTION 'counted entries are append-only but for a higher count or a later entry'
          USING ERRCODE = 'restrict_violation';
      END IF;
      RETURN NEW;
    END IF;
  END IF;
  IF NOT EXISTS (
    SELECT 1 FROM ledger_entries AS l
    WHERE l.tenant_id = NEW.tenant_id AND l.seq = NEW.entry_seq AND coalesce(l.actor, '') = NEW.actor) THEN
    RAISE EXCEPTION 'append-only evidence is missing for these counted entries' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$
--;;
CREATE TRIGGER counted_entries_evidence BEFORE INSERT OR UPDATE ON counted_entries
  FOR EACH ROW EXECUTE FUNCTION remit_counted_evidence()
