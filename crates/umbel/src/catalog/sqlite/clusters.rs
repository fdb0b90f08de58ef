//! Clusters of duplicates in the database: runs, their members, and what finding them needs.
//!
//! Invariant: no cluster has one member, and a leaf whose cluster changes is pending until the index has the new one.

use super::{doc_id, entry, row_id};
use crate::catalog::{ClusterRun, KEPT_RUNS, Member, NewRun, RunId, StoredPair, StoredSketch};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use umbel_core::id::{ClusterId, DocId, LeafId};

/// The run of a row.
pub(super) fn run_id(row_id: i64) -> RunId {
    RunId(row_id.cast_unsigned())
}

/// Puts a run into effect.
pub(super) fn mark(transaction: &Transaction<'_>, new: &NewRun) -> rusqlite::Result<ClusterRun> {
    let before = in_effect(transaction)?;
    let n_members: usize = new.clusters.iter().map(|(_, members)| members.len()).sum();
    let sql =
        "INSERT INTO runs (method, at, leaves, clusters, members) VALUES (?1, ?2, ?3, ?4, ?5)";
    let row = params![new.method, new.at, new.leaves, new.clusters.len(), n_members];
    transaction.prepare_cached(sql)?.execute(row)?;
    let run = transaction.last_insert_rowid();
    let sql = "INSERT INTO members (run, leaf, cluster, document) VALUES (?1, ?2, ?3, ?4)";
    let mut put = transaction.prepare_cached(sql)?;
    for (cluster, members) in &new.clusters {
        for (leaf, doc) in members {
            put.execute(params![run, leaf.0, cluster.0, row_id(*doc)])?;
        }
    }
    owe_differences(transaction, before, Some(run))?;
    let kept = "DELETE FROM runs WHERE id NOT IN (SELECT id FROM runs ORDER BY id DESC LIMIT ?1)";
    transaction.execute(kept, [KEPT_RUNS])?;
    Ok(ClusterRun {
        id: run_id(run),
        method: new.method.clone(),
        at: new.at,
        leaves: new.leaves,
        clusters: new.clusters.len(),
        members: n_members,
        reverted: false,
    })
}

/// Takes a run out of effect; whether it was there and not reverted before.
pub(super) fn revert(transaction: &Transaction<'_>, run: RunId) -> rusqlite::Result<bool> {
    let before = in_effect(transaction)?;
    let sql = "UPDATE runs SET reverted = 1 WHERE id = ?1 AND reverted = 0";
    let n_reverted = transaction.execute(sql, [run.0.cast_signed()])?;
    owe_differences(transaction, before, in_effect(transaction)?)?;
    Ok(n_reverted > 0)
}

fn in_effect(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached("SELECT run FROM in_effect")?.query_row([], |row| row.get(0))
}

/// Makes the leaves pending that are not in the same cluster in both runs.
fn owe_differences(
    transaction: &Transaction<'_>,
    before: Option<i64>,
    after: Option<i64>,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR IGNORE INTO pending_clusters (leaf) SELECT leaf FROM (
            SELECT leaf, cluster FROM members WHERE run = ?1
            EXCEPT SELECT leaf, cluster FROM members WHERE run = ?2)";
    let mut owe = transaction.prepare_cached(sql)?;
    owe.execute([before, after])?;
    owe.execute([after, before])?;
    Ok(())
}

/// The runs that are kept, newest first.
pub(super) fn runs(connection: &Connection) -> rusqlite::Result<Vec<ClusterRun>> {
    let sql =
        "SELECT id, method, at, leaves, clusters, members, reverted FROM runs ORDER BY id DESC";
    let run = |row: &Row<'_>| {
        Ok(ClusterRun {
            id: run_id(row.get(0)?),
            method: row.get(1)?,
            at: row.get(2)?,
            leaves: row.get(3)?,
            clusters: row.get(4)?,
            members: row.get(5)?,
            reverted: row.get(6)?,
        })
    };
    connection.prepare_cached(sql)?.query_map([], run)?.collect()
}

/// Takes leaves out of the clusters of every run; one that is left alone in its cluster leaves it too.
pub(super) fn leave(transaction: &Transaction<'_>, leaves: &[LeafId]) -> rusqlite::Result<()> {
    let in_effect = in_effect(transaction)?;
    let mut runs = transaction.prepare_cached("SELECT id FROM runs")?;
    let runs: Vec<i64> = runs.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let sql = "DELETE FROM members WHERE run = ?1 AND leaf = ?2 RETURNING cluster";
    let mut take = transaction.prepare_cached(sql)?;
    let sql = "SELECT leaf FROM members WHERE run = ?1 AND cluster = ?2 LIMIT 2";
    let mut others = transaction.prepare_cached(sql)?;
    let mut owe =
        transaction.prepare_cached("INSERT OR IGNORE INTO pending_clusters (leaf) VALUES (?1)")?;
    let mut forget = transaction.prepare_cached("DELETE FROM pending_clusters WHERE leaf = ?1")?;
    for leaf in leaves {
        for &run in &runs {
            let cluster = |row: &Row<'_>| row.get::<_, [u8; 16]>(0);
            let Some(cluster) = take.query_row(params![run, leaf.0], cluster).optional()? else {
                continue;
            };
            let left: Vec<[u8; 16]> = others
                .query_map(params![run, cluster], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            if let [alone] = left.as_slice() {
                take.query_row(params![run, alone], |_| Ok(()))?;
                if in_effect == Some(run) {
                    owe.execute([alone])?;
                }
            }
        }
        forget.execute([leaf.0])?;
    }
    Ok(())
}

/// At most `limit` leaves whose cluster the index may not have yet, with that cluster, by cluster: an index writes those of one
/// at once.
pub(super) fn pending(
    connection: &Connection,
    limit: i64,
) -> rusqlite::Result<Vec<(LeafId, ClusterId)>> {
    let sql = "SELECT p.leaf, coalesce(m.cluster, p.leaf) FROM pending_clusters p
        LEFT JOIN members m ON m.run = (SELECT run FROM in_effect) AND m.leaf = p.leaf
        ORDER BY 2, 1 LIMIT ?1";
    connection
        .prepare_cached(sql)?
        .query_map([limit], |row| Ok((LeafId(row.get(0)?), ClusterId(row.get(1)?))))?
        .collect()
}

/// The index has these clusters; one that has changed again stays pending.
pub(super) fn settle(
    transaction: &Transaction<'_>,
    clusters: &[(LeafId, ClusterId)],
) -> rusqlite::Result<()> {
    let mut find = transaction.prepare_cached(OF_LEAF)?;
    let mut forget = transaction.prepare_cached("DELETE FROM pending_clusters WHERE leaf = ?1")?;
    for (leaf, cluster) in clusters {
        if of_leaf(&mut find, *leaf)? == *cluster {
            forget.execute([leaf.0])?;
        }
    }
    Ok(())
}

const OF_LEAF: &str =
    "SELECT cluster FROM members WHERE run = (SELECT run FROM in_effect) AND leaf = ?1";

fn of_leaf(find: &mut rusqlite::Statement<'_>, leaf: LeafId) -> rusqlite::Result<ClusterId> {
    let found = find.query_row([leaf.0], |row| row.get(0).map(ClusterId)).optional()?;
    Ok(found.unwrap_or_else(|| leaf.into()))
}

/// The cluster of each leaf.
pub(super) fn of_leaves(
    connection: &Connection,
    leaves: &[LeafId],
) -> rusqlite::Result<Vec<ClusterId>> {
    let mut find = connection.prepare_cached(OF_LEAF)?;
    leaves.iter().map(|&leaf| of_leaf(&mut find, leaf)).collect()
}

/// The members of each cluster.
pub(super) fn members(
    connection: &Connection,
    clusters: &[ClusterId],
) -> rusqlite::Result<Vec<Vec<Member>>> {
    let sql = "SELECT leaf, entries.* FROM members JOIN entries ON entries.id = document
        WHERE run = (SELECT run FROM in_effect) AND cluster = ?1 ORDER BY leaf";
    let mut find = connection.prepare_cached(sql)?;
    let member = |row: &Row<'_>| Ok(Member { leaf: LeafId(row.get(0)?), document: entry(row, 1)? });
    clusters.iter().map(|cluster| find.query_map([cluster.0], member)?.collect()).collect()
}

/// Every member of every cluster.
pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<(ClusterId, LeafId, DocId)>> {
    let sql = "SELECT cluster, leaf, document FROM members WHERE run = (SELECT run FROM in_effect)
        ORDER BY cluster, leaf";
    let member =
        |row: &Row<'_>| Ok((ClusterId(row.get(0)?), LeafId(row.get(1)?), doc_id(row.get(2)?)));
    connection.prepare_cached(sql)?.query_map([], member)?.collect()
}

/// Keeps sketches.
pub(super) fn sketch(
    transaction: &Transaction<'_>,
    sketches: &[StoredSketch],
) -> rusqlite::Result<()> {
    let sql =
        "INSERT OR REPLACE INTO sketches (leaf, document, words, sketch) VALUES (?1, ?2, ?3, ?4)";
    let mut put = transaction.prepare_cached(sql)?;
    sketches.iter().try_for_each(|new| {
        put.execute(params![new.leaf.0, row_id(new.doc), new.words, new.sketch]).map(drop)
    })
}

/// The sketches, by leaf.
pub(super) fn sketches(connection: &Connection, rule: &str) -> rusqlite::Result<Vec<StoredSketch>> {
    let sql = "SELECT leaf, document, words, sketch, compared AND compared_by = ?1
        FROM sketches, state ORDER BY leaf";
    let stored = |row: &Row<'_>| {
        Ok(StoredSketch {
            leaf: LeafId(row.get(0)?),
            doc: doc_id(row.get(1)?),
            words: row.get(2)?,
            sketch: row.get(3)?,
            compared: row.get(4)?,
        })
    };
    connection.prepare_cached(sql)?.query_map([rule], stored)?.collect()
}

/// Adds pairs found under a rule.
pub(super) fn compared(
    transaction: &Transaction<'_>,
    rule: &str,
    pairs: &[StoredPair],
) -> rusqlite::Result<()> {
    let changed = "UPDATE state SET compared_by = ?1 WHERE compared_by <> ?1";
    if transaction.execute(changed, [rule])? > 0 {
        transaction.execute("DELETE FROM pairs", [])?;
    }
    let sql = "INSERT OR REPLACE INTO pairs (a, b, similarity) VALUES (?1, ?2, ?3)";
    let mut put = transaction.prepare_cached(sql)?;
    for pair in pairs {
        put.execute(params![pair.a, pair.b, pair.similarity])?;
    }
    transaction.execute(
        "DELETE FROM pairs WHERE NOT EXISTS (SELECT 1 FROM sketches WHERE words = a)
            OR NOT EXISTS (SELECT 1 FROM sketches WHERE words = b)",
        [],
    )?;
    transaction.execute("UPDATE sketches SET compared = 1 WHERE compared = 0", []).map(drop)
}

/// The pairs found under a rule.
pub(super) fn pairs(connection: &Connection, rule: &str) -> rusqlite::Result<Vec<StoredPair>> {
    let sql = "SELECT a, b, similarity FROM pairs, state WHERE compared_by = ?1 ORDER BY a, b";
    let pair =
        |row: &Row<'_>| Ok(StoredPair { a: row.get(0)?, b: row.get(1)?, similarity: row.get(2)? });
    connection.prepare_cached(sql)?.query_map([rule], pair)?.collect()
}
