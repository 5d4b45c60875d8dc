-- What decisions were made from, under the digest of its canonical JSON: packets, plans, policies, catalogues, lexicons.
CREATE TABLE agent_documents (
  tenant_id TEXT NOT NULL,
  ref TEXT NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  created_at TEXT NOT NULL,
  PRIMARY KEY (tenant_id, ref)
) STRICT, WITHOUT ROWID
--;;
-- What nobody could do yet is listed without reading all that was ever asked for.
CREATE INDEX agent_execution_ledger_escalated ON agent_execution_ledger (tenant_id, created_at) WHERE event = 'ESCALATED'
--;;
-- How dispatches ended, within a time.
CREATE INDEX agent_execution_ledger_ended ON agent_execution_ledger (tenant_id, created_at)
  WHERE event IN ('SUCCEEDED', 'FAILED')
--;;
CREATE TRIGGER agent_documents_no_update BEFORE UPDATE ON agent_documents
BEGIN SELECT RAISE(ABORT, 'agent_documents is append-only'); END
--;;
CREATE TRIGGER agent_documents_no_delete BEFORE DELETE ON agent_documents
BEGIN SELECT RAISE(ABORT, 'agent_documents is append-only'); END
--;;
CREATE TRIGGER agent_documents_no_replace BEFORE INSERT ON agent_documents
WHEN EXISTS (SELECT 1 FROM agent_documents WHERE tenant_id = NEW.tenant_id AND ref = NEW.ref)
BEGIN SELECT RAISE(ABORT, 'agent_documents is append-only'); END
