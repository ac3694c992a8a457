-- What version 2 adds: the queue.
-- Times: microseconds since 1970-01-01T00:00:00Z. `is_active`: the status is queued, running or waiting.
-- `seen`: `sessions.updated_at` when the run began to wait.
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    input TEXT,
    agent TEXT,
    status TEXT NOT NULL DEFAULT 'queued',
    is_active INTEGER NOT NULL DEFAULT 1,
    is_started INTEGER NOT NULL DEFAULT 0,
    priority INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    retry_at INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    seen INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    turn TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_by_session ON runs (session, number) WHERE is_active;
CREATE INDEX runs_by_priority ON runs (priority DESC, number) WHERE is_active;
-- A released lease has no worker; its token stays, so that the next one is greater.
CREATE TABLE leases (
    session TEXT PRIMARY KEY,
    token INTEGER NOT NULL,
    worker TEXT,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO runs (id, session, input, agent, status, is_active, is_started, priority, not_before, retry_at, attempts, failures, seen, error, turn, created_at, updated_at)
VALUES ('f75725ee-1791-4aee-ab54-8ed567804261', 'customer-7', '{"id":"f75725ee-1791-4aee-ab54-8ed567804261","type":"user","content":[{"type":"text","text":"Is it there?"}],"timestamp":"2026-11-23T23:30:49.617Z"}', NULL, 'queued', 1, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 1795476649619000, 1795476649619000);
-- A worker that has died.
INSERT INTO leases (session, token, worker, expires) VALUES ('customer-7', 3, 'host-1', 1795000000000000);
UPDATE sessions SET fence = 3;
UPDATE runs SET status = 'running', is_started = 1, attempts = 1;
