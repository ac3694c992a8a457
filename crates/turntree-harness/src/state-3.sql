-- The newest entry of the audit: without it, removed newest entries would leave a chain that fits.
CREATE TABLE audit_head (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    hash TEXT NOT NULL
) STRICT;
INSERT INTO audit_head (id, hash) SELECT 1, hash FROM policy_event ORDER BY number DESC LIMIT 1;
CREATE TRIGGER policy_event_head AFTER INSERT ON policy_event
BEGIN INSERT OR REPLACE INTO audit_head (id, hash) VALUES (1, new.hash); END;
