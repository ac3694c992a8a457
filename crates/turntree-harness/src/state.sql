CREATE TABLE event (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    actor TEXT NOT NULL,
    payload TEXT NOT NULL CHECK (json_valid(payload))
) STRICT;
CREATE TABLE agent (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    harness TEXT NOT NULL,
    session TEXT NOT NULL,
    pid INTEGER,
    pid_start INTEGER,
    worktree TEXT NOT NULL,
    branch TEXT,
    status TEXT NOT NULL CHECK (status IN ('active', 'completed')),
    started_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL
) STRICT;
CREATE TABLE claim (
    id TEXT PRIMARY KEY,
    resource TEXT NOT NULL,
    owner TEXT NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('exclusive', 'shared')),
    epoch INTEGER NOT NULL,
    depth INTEGER NOT NULL DEFAULT 1,
    acquired_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    released_at INTEGER
) STRICT;
CREATE UNIQUE INDEX claim_exclusive ON claim (resource) WHERE mode = 'exclusive' AND released_at IS NULL;
CREATE INDEX claim_by_resource ON claim (resource) WHERE released_at IS NULL;
-- The newest fencing token of a resource: grows with each claim.
CREATE TABLE fence (resource TEXT PRIMARY KEY, epoch INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE announcement (
    id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    resource TEXT NOT NULL,
    intent TEXT NOT NULL,
    note TEXT NOT NULL,
    at INTEGER NOT NULL,
    done_at INTEGER
) STRICT;
CREATE UNIQUE INDEX announcement_open ON announcement (agent, resource) WHERE done_at IS NULL;
CREATE INDEX announcement_by_resource ON announcement (resource) WHERE done_at IS NULL;
CREATE TABLE message (
    id TEXT PRIMARY KEY,
    channel TEXT NOT NULL,
    from_agent TEXT NOT NULL,
    to_agent TEXT,
    text TEXT NOT NULL,
    priority INTEGER NOT NULL,
    at INTEGER NOT NULL,
    expires_at INTEGER
) STRICT;
CREATE TABLE receipt (
    message TEXT NOT NULL REFERENCES message (id),
    agent TEXT NOT NULL,
    read_at INTEGER NOT NULL,
    PRIMARY KEY (message, agent)
) STRICT, WITHOUT ROWID;
CREATE TABLE board_post (
    id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('note', 'finding', 'dead-end', 'norm', 'flag')),
    text TEXT NOT NULL,
    priority INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE TABLE model_lease (
    id TEXT PRIMARY KEY,
    target TEXT NOT NULL,
    holder TEXT NOT NULL,
    acquired_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX model_lease_by_target ON model_lease (target);
CREATE TABLE model_limit (
    target TEXT PRIMARY KEY,
    limit_value INTEGER NOT NULL,
    ceiling INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE worktree (
    slug TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    branch TEXT NOT NULL,
    path TEXT NOT NULL,
    base TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'removed'))
) STRICT;
CREATE TABLE policy_event (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    session TEXT NOT NULL,
    agent TEXT NOT NULL,
    harness TEXT NOT NULL,
    tool TEXT NOT NULL,
    action_hash TEXT NOT NULL,
    facts TEXT NOT NULL CHECK (json_valid(facts)),
    outcome TEXT NOT NULL,
    rules TEXT NOT NULL CHECK (json_valid(rules)),
    shadow TEXT NOT NULL CHECK (json_valid(shadow)),
    latency_us INTEGER NOT NULL,
    previous_hash TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE
) STRICT;
CREATE TRIGGER policy_event_no_update BEFORE UPDATE ON policy_event
BEGIN SELECT raise(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER policy_event_no_delete BEFORE DELETE ON policy_event
BEGIN SELECT raise(ABORT, 'the audit is append-only'); END;
CREATE TABLE override (
    id TEXT PRIMARY KEY,
    rule TEXT NOT NULL,
    reason TEXT NOT NULL,
    author TEXT NOT NULL,
    at INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT;
-- Hashes of tool calls of a session, for the loop detector.
CREATE TABLE tool_call (
    number INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    hash TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX tool_call_by_session ON tool_call (session, hash, at);
