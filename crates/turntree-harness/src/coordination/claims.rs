//! Leases of resources, with fencing tokens.

use rusqlite::{Connection, OptionalExtension};
use serde_json::json;
use turntree_store::engines::sqlite::Failure;

use super::Coordination;
use super::liveness::reap;
use crate::error::HarnessError;
use crate::path::composed;
use crate::project::Project;
use crate::state::{new_id, record};

/// How a resource is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One owner.
    Exclusive,
    /// Several owners, and no exclusive one.
    Shared,
}

impl Mode {
    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        }
    }
}

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its id.
    pub id: String,
    /// The resource.
    pub resource: String,
    /// The owner.
    pub owner: String,
    /// How it is shared.
    pub mode: String,
    /// The fencing token: greater than that of every earlier lease of the resource.
    pub token: i64,
    /// When it ends, in milliseconds since 1970.
    pub expires_at: i64,
}

enum Claimed {
    Lease(Lease),
    Taken { holder: String, expires_at: i64 },
}

/// The longest time of a lease, in milliseconds: 30 days.
const MAX_TTL_MS: i64 = 30 * 24 * 3600 * 1000;

/// Checks the time of a lease.
pub(super) fn check_ttl(ttl_ms: i64) -> Result<(), HarnessError> {
    if (1..=MAX_TTL_MS).contains(&ttl_ms) {
        return Ok(());
    }
    Err(HarnessError::Invalid(
        "ttl: expected a positive number of seconds, at most 2592000 (30 days)".to_owned(),
    ))
}

/// The name of a resource: that of a file is its path below the working tree, without `.` and `..`, in composed characters.
pub(super) fn canonical(project: &Project, resource: &str) -> Result<String, HarnessError> {
    let (kind, name) = resource.split_once(':').filter(|(kind, name)| !kind.is_empty() && !name.is_empty()).ok_or_else(|| {
        HarnessError::Invalid(format!(
            "resource: expected a kind and a name such as \"file:src/a.rs\" or \"port:8080\", got \"{resource}\""
        ))
    })?;
    if !matches!(kind, "file" | "dir") {
        return Ok(resource.to_owned());
    }
    let root = project.root.to_string_lossy();
    // A linked working tree may be in the main one.
    let trees = [&project.worktree.to_string_lossy(), &root].map(|tree| composed(tree).into_owned());
    let path = crate::path::join(Some(&root), name).unwrap_or_default();
    let path = composed(&path);
    match trees.iter().find_map(|tree| crate::path::below(tree, &path)) {
        Some(relative) => Ok(format!("{kind}:{relative}")),
        None => Err(HarnessError::Invalid(format!(
            "resource: \"{resource}\" is outside of the project \"{root}\"; name a path below it"
        ))),
    }
}

impl Coordination {
    /// Claims a resource for a time. An owner may claim again what it has: each claim needs a release.
    ///
    /// # Errors
    /// [`HarnessError::ClaimConflict`] if another owner has it, [`HarnessError::Invalid`] for a resource without a kind or a
    /// time that is not positive.
    pub fn claim(&self, owner: &str, resource: &str, mode: Mode, ttl_ms: i64) -> Result<Lease, HarnessError> {
        let resource = canonical(&self.project, resource)?;
        check_ttl(ttl_ms)?;
        let now = self.project.now();
        let (name, owner) = (resource.clone(), owner.to_owned());
        let folder = self.project.state_folder();
        let claimed = self.state.write(move |connection| {
            let claimed = acquire(connection, &name, &owner, mode, now, ttl_ms)?;
            match &claimed {
                // A holder that has crashed does not keep the resource until its lease ends.
                Claimed::Taken { holder, .. } if reap(connection, &folder, holder, now)? => {
                    acquire(connection, &name, &owner, mode, now, ttl_ms)
                }
                _ => Ok(claimed),
            }
        })?;
        match claimed {
            Claimed::Lease(lease) => Ok(lease),
            Claimed::Taken { holder, expires_at } => {
                Err(HarnessError::ClaimConflict { resource, holder, expires_at })
            }
        }
    }

    /// Extends a lease. False if it has expired or was released.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn renew(&self, lease: &Lease, ttl_ms: i64) -> Result<bool, HarnessError> {
        check_ttl(ttl_ms)?;
        let (now, id) = (self.project.now(), lease.id.clone());
        self.state.write(move |connection| {
            let mut statement = connection.prepare_cached(
                "UPDATE claim SET expires_at = ?2 WHERE id = ?1 AND released_at IS NULL AND expires_at > ?3",
            )?;
            Ok(statement.execute((&id, now.saturating_add(ttl_ms), now))? > 0)
        })
    }

    /// Releases a lease. False if it has expired or was released.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn release(&self, lease: &Lease) -> Result<bool, HarnessError> {
        let (now, lease) = (self.project.now(), lease.clone());
        self.state.write(move |connection| {
            let mut statement = connection.prepare_cached(
                "UPDATE claim SET depth = depth - 1, released_at = CASE WHEN depth <= 1 THEN ?2 END \
                 WHERE id = ?1 AND released_at IS NULL AND expires_at > ?2",
            )?;
            let is_released = statement.execute((&lease.id, now))? > 0;
            if is_released {
                record(
                    connection,
                    now,
                    "claim.released",
                    &lease.resource,
                    &lease.owner,
                    &json!({"token": lease.token}),
                )?;
            }
            Ok(is_released)
        })
    }

    /// Whether a lease still protects its resource: it is not released, and no later lease exists.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn is_valid(&self, lease: &Lease) -> Result<bool, HarnessError> {
        let (now, id) = (self.project.now(), lease.id.clone());
        self.state.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT 1 FROM claim WHERE id = ?1 AND released_at IS NULL AND expires_at > ?2",
            )?;
            Ok(statement.exists((&id, now))?)
        })
    }

    /// The leases that have not ended.
    ///
    /// # Errors
    /// The errors of the state file.
    pub fn claims(&self) -> Result<Vec<Lease>, HarnessError> {
        let now = self.project.now();
        self.state.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, resource, owner, mode, epoch, expires_at FROM claim WHERE released_at IS NULL AND expires_at > ?1 \
                 ORDER BY resource, id",
            )?;
            let leases = statement.query_map([now], lease_of)?;
            Ok(leases.collect::<Result<_, _>>()?)
        })
    }
}

fn lease_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Lease> {
    Ok(Lease {
        id: row.get(0)?,
        resource: row.get(1)?,
        owner: row.get(2)?,
        mode: row.get(3)?,
        token: row.get(4)?,
        expires_at: row.get(5)?,
    })
}

fn acquire(
    connection: &Connection,
    resource: &str,
    owner: &str,
    mode: Mode,
    now: i64,
    ttl_ms: i64,
) -> Result<Claimed, Failure> {
    connection
        .prepare_cached("UPDATE claim SET released_at = ?2 WHERE resource = ?1 AND released_at IS NULL AND expires_at <= ?2")?
        .execute((resource, now))?;
    let other = connection
        .prepare_cached(
            "SELECT owner, expires_at FROM claim WHERE resource = ?1 AND released_at IS NULL AND owner <> ?2 \
             AND (mode = 'exclusive' OR ?3 = 'exclusive') ORDER BY expires_at DESC LIMIT 1",
        )?
        .query_row((resource, owner, mode.as_str()), |row| {
            Ok(Claimed::Taken { holder: row.get(0)?, expires_at: row.get(1)? })
        })
        .optional()?;
    if let Some(other) = other {
        return Ok(other);
    }
    let expires_at = now.saturating_add(ttl_ms);
    let own = connection
        .prepare_cached(
            "UPDATE claim SET depth = depth + 1, expires_at = max(expires_at, ?4) WHERE resource = ?1 AND owner = ?2 AND mode = ?3 \
             AND released_at IS NULL RETURNING id, resource, owner, mode, epoch, expires_at",
        )?
        .query_row((resource, owner, mode.as_str(), expires_at), lease_of)
        .optional()?;
    if let Some(lease) = own {
        return Ok(Claimed::Lease(lease));
    }
    let token: i64 = connection
        .prepare_cached(
            "INSERT INTO fence (resource, epoch) VALUES (?1, 1) ON CONFLICT (resource) DO UPDATE SET epoch = epoch + 1 \
             RETURNING epoch",
        )?
        .query_row([resource], |row| row.get(0))?;
    let mode = mode.as_str().to_owned();
    let lease = Lease {
        id: new_id(now),
        resource: resource.to_owned(),
        owner: owner.to_owned(),
        mode,
        token,
        expires_at,
    };
    connection
        .prepare_cached(
            "INSERT INTO claim (id, resource, owner, mode, epoch, acquired_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute((&lease.id, resource, owner, &lease.mode, token, now, expires_at))?;
    record(connection, now, "claim.acquired", resource, owner, &json!({"token": token, "mode": lease.mode}))?;
    Ok(Claimed::Lease(lease))
}
