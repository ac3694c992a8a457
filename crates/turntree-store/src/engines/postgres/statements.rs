//! The statements, with the names of the tables.

/// The statements of a store.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) create: String,
    pub(super) append: String,
    pub(super) state: String,
    pub(super) lock: String,
    pub(super) clear_entries: String,
    pub(super) clear_blobs: String,
    pub(super) replace: String,
    pub(super) insert_session: String,
    pub(super) insert_entries: String,
    pub(super) insert_blobs: String,
    pub(super) read: String,
    pub(super) blobs: String,
    pub(super) delete: String,
    pub(super) sessions: String,
    pub(super) check_logs: String,
    pub(super) check_orphans: String,
    pub(super) check_indexes: String,
}

/// What follows `head`, the row of the session that was written: the entry and the blobs. One statement is one
/// transaction and one round trip.
const STORE_ENTRY: &str = "
, entry AS (
    INSERT INTO {p}turntree_entries (session, revision, digest, data) SELECT key, revision, digest, $11 FROM head
), blob AS (
    INSERT INTO {p}turntree_blobs (session, address, data)
    SELECT head.key, blob.address, blob.data
    FROM head, unnest($12::bytea[], $13::bytea[]) AS blob (address, data)
    ON CONFLICT DO NOTHING
)
SELECT count(*) FROM head";

/// $1 to $10: id, agent, status, turns, nodes, bytes, `updated_at`, revision, digest, fence.
const CREATE: &str = "
WITH head AS (
    INSERT INTO {p}turntree_sessions
        (id, agent, status, turns, nodes, bytes, updated_at, revision, digest, fence)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT (id) DO NOTHING
    RETURNING key, revision, digest
)";

/// As [`CREATE`], and $14 is the expected digest. A concurrent writer of the row is waited for; the
/// conditions are then tested on the row that it has written.
const APPEND: &str = "
WITH head AS (
    UPDATE {p}turntree_sessions
    SET agent = $2, status = $3, turns = $4, nodes = $5, bytes = $6, updated_at = $7, revision = $8::bigint, digest = $9,
        fence = coalesce($10, fence)
    WHERE id = $1 AND revision = $8::bigint - 1 AND digest = $14 AND ($10::bigint IS NULL OR coalesce(fence, 0) <= $10)
    RETURNING key, revision, digest
)";

const REPLACE: &str = "
UPDATE {p}turntree_sessions
SET agent = $2, status = $3, turns = $4, nodes = $5, bytes = $6, updated_at = $7, revision = $8::bigint, digest = $9
WHERE id = $1";

const INSERT_SESSION: &str = "
INSERT INTO {p}turntree_sessions (id, agent, status, turns, nodes, bytes, updated_at, revision, digest)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (id) DO NOTHING
RETURNING key";

/// $2 is the revision of the first one.
const INSERT_ENTRIES: &str = "
INSERT INTO {p}turntree_entries (session, revision, digest, data)
SELECT $1, $2::bigint + entry.number - 1, entry.digest, entry.data
FROM unnest($3::bytea[], $4::bytea[]) WITH ORDINALITY AS entry (digest, data, number)";

const INSERT_BLOBS: &str = "
INSERT INTO {p}turntree_blobs (session, address, data)
SELECT $1, blob.address, blob.data FROM unnest($2::bytea[], $3::bytea[]) AS blob (address, data)
ON CONFLICT DO NOTHING";

/// One statement sees one state of the log. Only the row of the last entry has the state of the session.
const READ: &str = "
SELECT entry.revision, entry.digest, entry.data, session.revision,
    CASE WHEN is_last THEN session.agent END, CASE WHEN is_last THEN session.status END,
    CASE WHEN is_last THEN session.turns END, CASE WHEN is_last THEN session.nodes END,
    CASE WHEN is_last THEN session.bytes END, CASE WHEN is_last THEN session.updated_at END
FROM {p}turntree_sessions AS session
LEFT JOIN {p}turntree_entries AS entry ON entry.session = session.key
CROSS JOIN LATERAL (SELECT entry.revision = session.revision AS is_last) AS last
WHERE session.id = $1
ORDER BY entry.revision";

const BLOBS: &str = "
SELECT blob.address, blob.data
FROM {p}turntree_blobs AS blob JOIN {p}turntree_sessions AS session ON blob.session = session.key
WHERE session.id = $1 AND blob.address = ANY ($2)";

/// $1 and $2: the first and the last time; $3 and $4: the session before the page.
const SESSIONS: &str = "
SELECT id, agent, status, turns, nodes, bytes, updated_at
FROM {p}turntree_sessions
WHERE updated_at >= $1 AND updated_at <= $2 AND (updated_at < $3 OR id > $4)
    AND ($5::text IS NULL OR agent = $5) AND ($6::text IS NULL OR status = $6)
ORDER BY updated_at DESC, id
LIMIT $7";

/// Logs with a gap, and logs whose end is not the one that the session names.
const CHECK_LOGS: &str = "
SELECT session.id, session.revision, log.entries, log.first, log.last
FROM {p}turntree_sessions AS session
LEFT JOIN (
    SELECT session, count(*) AS entries, min(revision) AS first, max(revision) AS last
    FROM {p}turntree_entries GROUP BY session
) AS log ON log.session = session.key
LEFT JOIN {p}turntree_entries AS entry ON entry.session = session.key AND entry.revision = session.revision
WHERE log.entries IS NULL OR log.last <> session.revision OR log.last - log.first + 1 <> log.entries
    OR entry.digest IS DISTINCT FROM session.digest
ORDER BY session.id";

const CHECK_ORPHANS: &str = "
SELECT 'entries', count(*) FROM {p}turntree_entries AS orphan
WHERE NOT EXISTS (SELECT FROM {p}turntree_sessions AS session WHERE session.key = orphan.session)
UNION ALL
SELECT 'blobs', count(*) FROM {p}turntree_blobs AS orphan
WHERE NOT EXISTS (SELECT FROM {p}turntree_sessions AS session WHERE session.key = orphan.session)";

const CHECK_INDEXES: &str = "
SELECT indexrelid::regclass::text FROM pg_index
WHERE indrelid IN ('{p}turntree_sessions'::regclass, '{p}turntree_entries'::regclass, '{p}turntree_blobs'::regclass)
    AND NOT (indisvalid AND indisready)";

impl Statements {
    /// The statements for tables with this qualifier.
    pub(super) fn new(qualifier: &str) -> Self {
        let with = |sql: &str| sql.replace("{p}", qualifier);
        // The qualifier is inside of a text there.
        let in_text = |sql: &str| sql.replace("{p}", &qualifier.replace('\'', "''"));
        Self {
            create: with(&format!("{CREATE}{STORE_ENTRY}")),
            append: with(&format!("{APPEND}{STORE_ENTRY}")),
            state: with("SELECT revision, digest, fence FROM {p}turntree_sessions WHERE id = $1"),
            lock: with("SELECT revision, digest, key FROM {p}turntree_sessions WHERE id = $1 FOR UPDATE"),
            clear_entries: with("DELETE FROM {p}turntree_entries WHERE session = $1"),
            clear_blobs: with("DELETE FROM {p}turntree_blobs WHERE session = $1"),
            replace: with(REPLACE),
            insert_session: with(INSERT_SESSION),
            insert_entries: with(INSERT_ENTRIES),
            insert_blobs: with(INSERT_BLOBS),
            read: with(READ),
            blobs: with(BLOBS),
            delete: with("DELETE FROM {p}turntree_sessions WHERE id = $1"),
            sessions: with(SESSIONS),
            check_logs: with(CHECK_LOGS),
            check_orphans: with(CHECK_ORPHANS),
            check_indexes: in_text(CHECK_INDEXES),
        }
    }
}
