-- What decisions were made from, under the digest of its canonical JSON: packets, plans, policies, catalogues, lexicons.
CREATE TABLE agent_documents (
  tenant_id TEXT COLLATE "C" NOT NULL,
  ref TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  body TEXT COLLATE "C" NOT NULL,
  created_at TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, ref)
)
--;;
-- What nobody could do yet is listed without reading all that was ever asked for.
CREATE INDEX agent_execution_ledger_escalated ON agent_execution_ledger (tenant_id, created_at) WHERE event = 'ESCALATED'
--;;
-- How dispatches ended, within a time.
CREATE INDEX agent_execution_ledger_ended ON agent_execution_ledger (tenant_id, created_at)
  WHERE event IN ('SUCCEEDED', 'FAILED')
--;;
CREATE TRIGGER agent_documents_no_change BEFORE UPDATE OR DELETE ON agent_documents
  FOR EACH ROW EXECUTE FUNCTION remit_append_only()
--;;
CREATE TRIGGER agent_documents_no_truncate BEFORE TRUNCATE ON agent_documents
  FOR EACH STATEMENT EXECUTE FUNCTION remit_append_only()
