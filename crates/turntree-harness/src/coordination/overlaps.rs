//! What the announcements of several agents have in common, and the risk of that.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use serde::Serialize;
use turntree_store::engines::sqlite::Failure;

use super::agents::Announcement;
use super::liveness::{COLUMNS, Signs, is_live, signs_of};
use crate::path::have_common_match;

/// The longest resource whose patterns are compared, in bytes: the time grows with the product of two lengths.
pub const MAX_RESOURCE: usize = 1024;

/// The most announcements of others that are compared.
const MAX_OTHERS: u32 = 1_000;

/// How two resources overlap, the closest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Relation {
    /// Both are files of one folder.
    Folder,
    /// One is a folder or a pattern that may have files of the other one.
    Inside,
    /// They are the same.
    Same,
}

/// What another agent has announced that overlaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overlap {
    /// The announcement.
    #[serde(flatten)]
    pub announcement: Announcement,
    /// How it overlaps.
    #[serde(rename = "overlap")]
    pub relation: Relation,
}

/// How likely it is that the work of several agents collides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// Nothing overlaps.
    #[default]
    None,
    /// The others review, test or document.
    Low,
    /// One other agent edits, or others work on files of the same folder.
    Medium,
    /// One other agent edits and more work there too, or one refactors.
    High,
    /// Two other agents or more edit.
    Critical,
}

/// What to do about overlaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Suggestion {
    /// Work at the same time.
    #[default]
    ParallelOk,
    /// Work at the same time, and merge in the given order.
    MergeOrder,
    /// Work one after the other, in the given order.
    Sequence,
}

/// The announcements of other live agents that overlap with one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Overlaps {
    /// The risk.
    pub risk: Risk,
    /// What to do.
    pub suggestion: Suggestion,
    /// The agents in the order in which to merge, or to work: those that change least first.
    pub order: Vec<String>,
    /// The announcements, the closest first.
    pub overlaps: Vec<Overlap>,
}

/// How much an intent changes. One that is not known may change as much as editing.
fn rank(intent: &str) -> u8 {
    match intent {
        "reviewing" => 0,
        "testing" => 1,
        "documenting" => 2,
        "refactoring" => 4,
        _ => EDITING,
    }
}

const EDITING: u8 = 3;

impl Overlaps {
    /// Finds them.
    pub(super) fn find(
        connection: &Connection,
        folder: &Path,
        (agent, resource, intent): (&str, &str, &str),
        oldest: i64,
    ) -> Result<Self, Failure> {
        let own = Area::of(resource);
        let mut found = Vec::new();
        for announcement in of_others(connection, folder, agent, oldest)? {
            if let Some(relation) = own.relation(&Area::of(&announcement.resource)) {
                found.push(Overlap { announcement, relation });
            }
        }
        found.sort_by_key(|overlap| std::cmp::Reverse(overlap.relation));
        let risk = risk(&found);
        let suggestion = match risk {
            Risk::None | Risk::Low => Suggestion::ParallelOk,
            Risk::Medium => Suggestion::MergeOrder,
            Risk::High | Risk::Critical => Suggestion::Sequence,
        };
        let order = if found.is_empty() { Vec::new() } else { order(&found, agent, intent) };
        Ok(Self { risk, suggestion, order, overlaps: found })
    }
}

/// The risk, by what each of the other agents does at most.
fn risk(overlaps: &[Overlap]) -> Risk {
    let mut close: BTreeMap<&str, u8> = BTreeMap::new();
    let mut all = None;
    for Overlap { announcement, relation } in overlaps {
        let rank = rank(&announcement.intent);
        all = all.max(Some(rank));
        if *relation > Relation::Folder {
            let known = close.entry(&announcement.agent).or_default();
            *known = rank.max(*known);
        }
    }
    let editors = close.values().filter(|rank| **rank >= EDITING).count();
    let refactors = close.values().any(|rank| *rank > EDITING);
    match all {
        None => Risk::None,
        Some(rank) if rank < EDITING => Risk::Low,
        Some(_) if editors > 1 => Risk::Critical,
        Some(_) if refactors || (editors == 1 && close.len() > 1) => Risk::High,
        Some(_) => Risk::Medium,
    }
}

/// All agents, by what each does at most; the one that asks is the last of those that do the same.
fn order(overlaps: &[Overlap], agent: &str, intent: &str) -> Vec<String> {
    let mut ranks: BTreeMap<&str, u8> = BTreeMap::new();
    for Overlap { announcement, .. } in overlaps {
        let known = ranks.entry(&announcement.agent).or_default();
        *known = rank(&announcement.intent).max(*known);
    }
    let mut agents: Vec<(u8, &str)> = ranks.into_iter().map(|(agent, rank)| (rank, agent)).collect();
    agents.push((rank(intent), agent));
    agents.sort_by_key(|(rank, _)| *rank);
    agents.into_iter().map(|(_, agent)| agent.to_owned()).collect()
}

/// What a resource covers.
#[derive(Debug)]
struct Area<'a> {
    resource: &'a str,
    /// Patterns of paths; none for what is no file and no folder.
    patterns: Vec<String>,
    /// The folder of a single file, unless that is the project itself.
    folder: Option<&'a str>,
}

impl<'a> Area<'a> {
    fn of(resource: &'a str) -> Self {
        let (kind, name) = resource.split_once(':').unwrap_or_default();
        let is_single = kind == "file" && !name.contains(['*', '?']);
        let folder = name.rsplit_once('/').map(|(folder, _)| folder).filter(|_| is_single);
        let patterns = match kind {
            _ if resource.len() > MAX_RESOURCE => Vec::new(),
            "file" => vec![name.to_owned()],
            "dir" if name.is_empty() => vec!["**".to_owned()],
            "dir" => vec![name.to_owned(), format!("{name}/**")],
            _ => Vec::new(),
        };
        Self { resource, patterns, folder }
    }

    fn relation(&self, other: &Area<'_>) -> Option<Relation> {
        let meets = |own: &String| other.patterns.iter().any(|other| have_common_match(own, other));
        if self.resource == other.resource {
            Some(Relation::Same)
        } else if self.patterns.iter().any(meets) {
            Some(Relation::Inside)
        } else {
            (self.folder.is_some() && self.folder == other.folder).then_some(Relation::Folder)
        }
    }
}

/// The open announcements of other live agents, the newest first.
fn of_others(
    connection: &Connection,
    folder: &Path,
    agent: &str,
    oldest: i64,
) -> Result<Vec<Announcement>, Failure> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT announcement.agent, resource, intent, note, announcement.at, {COLUMNS} FROM announcement LEFT JOIN agent \
         ON agent.id = announcement.agent WHERE announcement.agent <> ?1 AND done_at IS NULL \
         ORDER BY announcement.at DESC LIMIT ?2",
    ))?;
    let mut rows = statement.query((agent, MAX_OTHERS))?;
    let mut alive: BTreeMap<String, bool> = BTreeMap::new();
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let announcement = Announcement {
            agent: row.get(0)?,
            resource: row.get(1)?,
            intent: row.get(2)?,
            note: row.get(3)?,
            at: row.get(4)?,
        };
        let is_here = match alive.get(&announcement.agent) {
            Some(is_here) => *is_here,
            None if row.get::<_, Option<String>>(5)?.is_none() => announcement.at >= oldest,
            None => {
                let signs = signs_of(row, 5)?;
                // A fresh announcement is a sign of life too. The newest one comes first.
                let last_seen_at = signs.last_seen_at.max(announcement.at);
                is_live(&Signs { last_seen_at, ..signs }, folder, oldest)
            }
        };
        alive.insert(announcement.agent.clone(), is_here);
        if is_here {
            found.push(announcement);
        }
    }
    Ok(found)
}
