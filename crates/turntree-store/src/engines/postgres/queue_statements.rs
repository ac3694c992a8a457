//! The statements of the queue, with the names of the tables.

/// The channel of notifications. All schemas of a database share it: a notification too many costs one query.
pub(super) const CHANNEL: &str = "turntree_runs";

/// The columns of a run; see `queue::run_of`.
const RUN: &str = "run.id, run.session, run.input, run.agent, run.status, run.attempts, run.failures, run.error, run.turn, \
     run.created_at, run.updated_at";

/// The time of the server in microseconds. It does not stand still within a transaction.
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// The statements of a queue.
#[derive(Debug)]
pub(super) struct QueueStatements {
    pub(super) enqueue: String,
    pub(super) notify: String,
    pub(super) resume: String,
    pub(super) run: String,
    pub(super) runs: String,
    pub(super) prune: String,
    pub(super) rewrite: String,
    pub(super) next: String,
    pub(super) lease: String,
    pub(super) fence: String,
    pub(super) start: String,
    pub(super) heartbeat: String,
    pub(super) lock: String,
    pub(super) release: String,
    pub(super) finish: String,
}

/// $1: the names of the worker's agents. Locks the run; runs that another worker locks are left out. A started run has
/// left its state in the session, so it comes before the others.
const NEXT: &str = "
SELECT run.id, run.session, run.is_started
FROM {p}turntree_runs AS run
LEFT JOIN {p}turntree_leases AS lease ON lease.session = run.session
LEFT JOIN {p}turntree_sessions AS session ON session.id = run.session
CROSS JOIN (SELECT {now} AS now) AS clock
WHERE run.is_active AND run.not_before <= clock.now AND run.retry_at <= clock.now
    AND (run.status <> 'waiting' OR (session.status <> 'waiting' AND session.updated_at <> run.seen))
    AND (lease.session IS NULL OR lease.expires <= clock.now)
    AND (run.agent IS NULL OR run.agent = ANY ($1::text[]))
    AND NOT EXISTS (
        SELECT FROM {p}turntree_runs AS earlier
        WHERE earlier.is_active AND earlier.session = run.session AND earlier.not_before <= clock.now
            AND (NOT earlier.is_started, earlier.number) < (NOT run.is_started, run.number)
    )
ORDER BY run.priority DESC, run.number
LIMIT 1
FOR UPDATE OF run SKIP LOCKED";

/// $1 to $3: session, worker, duration of the lease. Returns no row if another worker has the lease: the query of the
/// next run may have seen an older state of it.
const LEASE: &str = "
INSERT INTO {p}turntree_leases AS lease (session, token, worker, expires)
VALUES ($1, 1 + coalesce((SELECT fence FROM {p}turntree_sessions WHERE id = $1), 0), $2, {now} + $3)
ON CONFLICT (session) DO UPDATE
SET token = greatest(lease.token + 1, excluded.token), worker = excluded.worker, expires = excluded.expires
WHERE lease.expires <= {now}
RETURNING token";

/// $1 to $9: id, status, whether it is active, turn, error, factor, failures, attempts, delay; $10: seen.
const FINISH: &str = "
UPDATE {p}turntree_runs
SET status = $2, is_active = $3, turn = $4, error = CASE WHEN $2 = 'done' THEN NULL ELSE coalesce($5, error) END,
    failures = failures * $6::integer + $7::integer, attempts = greatest(attempts * $6::integer + $8::integer, 0),
    retry_at = {now} + $9, seen = $10, updated_at = {now}
WHERE id = $1";

impl QueueStatements {
    /// The statements for tables with this qualifier.
    pub(super) fn new(qualifier: &str) -> Self {
        let with = |sql: &str| sql.replace("{p}", qualifier).replace("{now}", NOW);
        Self {
            enqueue: with(
                "INSERT INTO {p}turntree_runs (id, session, input, agent, priority, not_before, created_at, updated_at) \
                 VALUES ($1, $2, $3, $4, $5, coalesce($6::bigint, 0), {now}, {now}) ON CONFLICT (id) DO NOTHING",
            ),
            notify: format!("SELECT pg_notify('{CHANNEL}', '')"),
            resume: with(
                "UPDATE {p}turntree_runs SET status = 'queued', retry_at = 0, updated_at = {now} \
                 WHERE is_active AND session = $1 AND status = 'waiting' RETURNING id",
            ),
            run: with(&format!("SELECT {RUN} FROM {{p}}turntree_runs AS run WHERE id = $1")),
            runs: with(&format!(
                "SELECT {RUN}, run.number FROM {{p}}turntree_runs AS run \
                 WHERE run.number < $1 AND ($2::text IS NULL OR run.status = $2) \
                 AND ($3::text IS NULL OR run.session = $3) ORDER BY run.number DESC LIMIT $4"
            )),
            prune: with("DELETE FROM {p}turntree_runs WHERE NOT is_active AND updated_at <= $1"),
            rewrite: with(
                "UPDATE {p}turntree_runs SET input = $2, error = $3, turn = $4 WHERE id = $1 \
                 AND input IS NOT DISTINCT FROM $5 AND error IS NOT DISTINCT FROM $6 AND turn IS NOT DISTINCT FROM $7",
            ),
            next: with(NEXT),
            lease: with(LEASE),
            fence: with("UPDATE {p}turntree_sessions SET fence = $2 WHERE id = $1"),
            start: with(&format!(
                "UPDATE {{p}}turntree_runs AS run SET status = 'running', is_started = true, attempts = attempts + 1, \
                 updated_at = {{now}} WHERE id = $1 RETURNING {RUN}"
            )),
            heartbeat: with(
                "UPDATE {p}turntree_leases SET expires = {now} + $3 \
                 WHERE session = $1 AND token = $2 AND worker IS NOT NULL",
            ),
            lock: with("SELECT FROM {p}turntree_runs WHERE id = $1 FOR UPDATE"),
            release: with(
                "UPDATE {p}turntree_leases SET worker = NULL, expires = 0 \
                 WHERE session = $1 AND token = $2 AND worker IS NOT NULL",
            ),
            finish: with(FINISH),
        }
    }
}
