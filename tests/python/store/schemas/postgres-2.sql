-- What version 2 adds: the queue.
CREATE TABLE turntree_runs (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    session text COLLATE "C" NOT NULL,
    input text,
    agent text COLLATE "C",
    status text COLLATE "C" NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'running', 'waiting', 'done', 'failed')),
    is_active boolean NOT NULL DEFAULT true,
    is_started boolean NOT NULL DEFAULT false,
    priority integer NOT NULL,
    not_before bigint NOT NULL,
    retry_at bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    seen bigint NOT NULL DEFAULT 0,
    error text,
    turn text,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE INDEX turntree_runs_session ON turntree_runs (session, number) WHERE is_active;
CREATE INDEX turntree_runs_priority ON turntree_runs (priority DESC, number) WHERE is_active;
CREATE TABLE turntree_leases (
    session text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL,
    worker text,
    expires bigint NOT NULL
);
INSERT INTO turntree_runs (id, session, input, agent, status, is_active, is_started, priority, not_before, retry_at, attempts, failures, seen, error, turn, created_at, updated_at)
VALUES ('f75725ee-1791-4aee-ab54-8ed567804261', 'customer-7', '{"id":"f75725ee-1791-4aee-ab54-8ed567804261","type":"user","content":[{"type":"text","text":"Is it there?"}],"timestamp":"2026-11-23T23:30:49.617Z"}', NULL, 'queued', true, false, 0, 0, 0, 0, 0, 0, NULL, NULL, 1795476649619000, 1795476649619000);
-- A worker that has died.
INSERT INTO turntree_leases (session, token, worker, expires) VALUES ('customer-7', 3, 'host-1', 1795000000000000);
UPDATE turntree_sessions SET fence = 3;
UPDATE turntree_runs SET status = 'running', is_started = true, attempts = 1;
UPDATE turntree_schema SET version = 2;
