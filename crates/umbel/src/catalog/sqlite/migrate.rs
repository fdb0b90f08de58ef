//! A catalog of an older format → one of this format, with all that was in it.
//!
//! Invariant: a migration is one transaction, so a kill leaves the old format or the new one, never something between.

use super::{FORMAT_VERSION, misread};
use crate::catalog::encode;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

/// What brings a format to the next one: the format, and the changes.
type Migration = (i64, fn(&Transaction<'_>) -> rusqlite::Result<()>);

/// Every migration, oldest first.
pub(super) const MIGRATIONS: &[Migration] = &[(1, from_1), (2, from_2)];

/// Brings a catalog to the format that this version writes. One that has it stays as it is.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    if format(connection)? == FORMAT_VERSION {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    apply(&transaction)?;
    transaction.commit()
}

/// Makes the changes within a transaction. The format is read in it: another process may have been faster.
pub(super) fn apply(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    for &(from, change) in MIGRATIONS {
        if format(transaction)? == from {
            change(transaction)?;
            transaction.pragma_update(None, "user_version", from + 1)?;
        }
    }
    Ok(())
}

/// The format of a catalog.
pub(super) fn format(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Format 2 has the metadata of documents and the rules of sources. Titles were in the shapes alone; a document whose shape is
/// damaged gets none, and is found to be damaged when it is loaded, as before.
fn from_1(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(include_str!("from_1.sql"))?;
    let mut shapes = transaction.prepare("SELECT document, shape FROM contents")?;
    let mut put = transaction.prepare("UPDATE documents SET title = ?2 WHERE id = ?1")?;
    let mut rows = shapes.query([])?;
    while let Some(row) = rows.next()? {
        let shape = row.get_ref(1)?.as_blob().map_err(|error| misread(1, error))?;
        if let Ok(title) = encode::title(shape) {
            put.execute(params![row.get::<_, i64>(0)?, title])?;
        }
    }
    Ok(())
}

/// Format 3 has clusters of duplicates. The index of a store of format 2 holds each leaf as its own, and so does its catalog now.
fn from_2(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(include_str!("from_2.sql"))
}
