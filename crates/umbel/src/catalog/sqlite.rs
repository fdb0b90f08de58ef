//! The port on one SQLite file.
//!
//! Invariant: a call is one transaction, which is on the disk when the call returns; one that fails changes nothing.

mod file;
mod migrate;
mod clusters;

use super::{
    Catalog, CatalogError, CatalogInfo, Change, ClusterRun, DocumentEntry, Member, NewDocument,
    NewRun, Pending, RunId, Source, StoredDocument, StoredPair, StoredSketch,
};
use crate::catalog::encode;
use crate::metadata::{DateSource, Metadata, Updated};
use file::{
    READ_ONLY, READ_WRITE, catalog_error, connect, connect_read_only, corrupt, create, is_there,
    prepare_writer,
};
use rusqlite::backup::Backup;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use std::collections::BTreeSet;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use umbel_core::id::{ClusterId, DocId, LeafId};

/// The format that this version writes.
pub const FORMAT_VERSION: i64 = 3;
/// The oldest format that opens: [`SqliteCatalog::open`] brings it to the one above.
pub const OLDEST_READABLE: i64 = 1;

const SCHEMA: &str = include_str!("sqlite/schema.sql");
/// A catalog in one file. Its calls block for as long as the disk takes, a commit for one sync.
///
/// Leaf ids are expected to be made with [`LeafId::of`], so that no two documents share one.
#[derive(Debug)]
pub struct SqliteCatalog {
    path: PathBuf,
    /// Reads beside a commit. `None` where the writer serves reads too. Dropped before the writer, so that the writer is
    /// the last to close and leaves one file behind.
    reader: Option<Mutex<Connection>>,
    writer: Mutex<Connection>,
}

impl SqliteCatalog {
    /// The catalog in this file; an empty one where there is no file yet.
    ///
    /// One of an older format is brought to this one, at once or not at all, with every document marked as not indexed.
    ///
    /// Two processes must not create the same catalog at the same time.
    ///
    /// # Errors
    /// [`CatalogError::Version`] and [`CatalogError::Corrupt`] for a file that is not a catalog that this version reads,
    /// which is left as it is; [`CatalogError::Unwritable`] where the file cannot be made or written.
    pub fn open(path: &Path) -> Result<SqliteCatalog, CatalogError> {
        if !is_there(path)? {
            create(path)?;
        }
        let mut writer = connect(path, READ_WRITE)?;
        prepare_writer(&writer)
            .and_then(|()| migrate::migrate(&mut writer))
            .map_err(|error| catalog_error(path, error))?;
        let reader = connect(path, READ_ONLY)?;
        Ok(SqliteCatalog {
            path: path.to_owned(),
            reader: Some(Mutex::new(reader)),
            writer: Mutex::new(writer),
        })
    }

    /// The catalog in this file, for reading, also while another process holds and writes it. What would change it fails
    /// with [`CatalogError::Unwritable`]. Where its folder cannot be written either, nobody is expected to write it meanwhile.
    ///
    /// # Errors
    /// As [`open`](SqliteCatalog::open); a missing file is [`CatalogError::Corrupt`], one of an older format
    /// [`CatalogError::Outdated`].
    pub fn open_read_only(path: &Path) -> Result<SqliteCatalog, CatalogError> {
        let reader = connect_read_only(path)?;
        let found = migrate::format(&reader).map_err(|error| catalog_error(path, error))?;
        if found < FORMAT_VERSION {
            let (path, newest) = (path.to_owned(), FORMAT_VERSION);
            return Err(CatalogError::Outdated { path, found, newest });
        }
        Ok(SqliteCatalog { path: path.to_owned(), reader: None, writer: Mutex::new(reader) })
    }

    /// What [`open`](SqliteCatalog::open) would make of the catalog in this file, in a copy that is gone when it is dropped:
    /// the file stays as it is. The copy takes as much room as the catalog, in memory or where the system keeps temporary files.
    ///
    /// # Errors
    /// As [`open_read_only`](SqliteCatalog::open_read_only), but for an older format.
    pub fn open_copy(path: &Path) -> Result<SqliteCatalog, CatalogError> {
        let original = connect_read_only(path)?;
        // Without a name, SQLite makes a temporary file once its cache is full.
        let copied = Connection::open("").and_then(|mut copy| {
            Backup::new(&original, &mut copy)?.run_to_completion(
                c_int::MAX,
                Duration::ZERO,
                None,
            )?;
            prepare_writer(&copy)?;
            migrate::migrate(&mut copy)?;
            Ok(copy)
        });
        let writer = copied.map_err(|error| catalog_error(path, error))?;
        Ok(SqliteCatalog { path: path.to_owned(), reader: None, writer: Mutex::new(writer) })
    }

    /// An empty catalog that is gone when it is dropped.
    ///
    /// # Errors
    /// [`CatalogError::Database`] without memory.
    pub fn in_memory() -> Result<SqliteCatalog, CatalogError> {
        let path = PathBuf::from(":memory:");
        let made = Connection::open_in_memory().and_then(|connection| {
            connection.execute_batch(SCHEMA)?;
            prepare_writer(&connection)?;
            Ok(connection)
        });
        let writer = made.map_err(|error| catalog_error(&path, error))?;
        Ok(SqliteCatalog { path, reader: None, writer: Mutex::new(writer) })
    }

    /// Runs a read on one state of the catalog.
    fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, CatalogError> {
        let connection = lock(self.reader.as_ref().unwrap_or(&self.writer));
        let answer = connection.unchecked_transaction().and_then(|transaction| query(&transaction));
        answer.map_err(|error| catalog_error(&self.path, error))
    }

    /// Runs a change in one transaction.
    fn write<T>(
        &self,
        change: impl FnOnce(&Transaction) -> rusqlite::Result<T>,
    ) -> Result<T, CatalogError> {
        let mut connection = lock(&self.writer);
        let answer = connection.transaction_with_behavior(TransactionBehavior::Immediate).and_then(
            |transaction| {
                let answer = change(&transaction)?;
                transaction.commit()?;
                Ok(answer)
            },
        );
        answer.map_err(|error| catalog_error(&self.path, error))
    }
}

#[async_trait::async_trait]
impl Catalog for SqliteCatalog {
    async fn describe(&self) -> Result<CatalogInfo, CatalogError> {
        self.read(|connection| {
            let settings = connection
                .prepare_cached("SELECT key, value FROM settings")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            let sql = "SELECT generation, documents, leaves, not_indexed + pending_deletes + pending_clusters, run
                FROM state, in_effect";
            connection.prepare_cached(sql)?.query_row([], |row| {
                Ok(CatalogInfo {
                    generation: row.get::<_, i64>(0)?.cast_unsigned(),
                    documents: row.get(1)?,
                    leaves: row.get(2)?,
                    pending: row.get(3)?,
                    cluster_run: row.get::<_, Option<i64>>(4)?.map(clusters::run_id),
                    settings,
                })
            })
        })
    }

    async fn set(&self, settings: &[(&str, &str)]) -> Result<(), CatalogError> {
        self.write(|transaction| {
            let mut put = transaction
                .prepare_cached("INSERT OR REPLACE INTO settings (key, value) VALUES (?1, ?2)")?;
            settings.iter().try_for_each(|&setting| put.execute(setting).map(drop))
        })
    }

    async fn sources(&self) -> Result<Vec<Source>, CatalogError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT name, root, rules FROM sources ORDER BY name")?
                .query_map([], |row| {
                    let root = root_path(row.get(1)?);
                    Ok(Source { name: row.get(0)?, root, rules: row.get(2)? })
                })?
                .collect()
        })
    }

    async fn commit(&self, change: Change) -> Result<Vec<DocId>, CatalogError> {
        if [
            change.sources.len(),
            change.put.len(),
            change.remove.len(),
            change.remove_sources.len(),
        ] == [0; 4]
        {
            return Ok(Vec::new());
        }
        self.write(|transaction| {
            change.sources.iter().try_for_each(|source| put_source(transaction, source))?;
            change.remove.iter().try_for_each(|&doc| remove(transaction, doc))?;
            let ids = change
                .put
                .iter()
                .map(|new| put(transaction, new))
                .collect::<rusqlite::Result<_>>()?;
            let mut remove_source =
                transaction.prepare_cached("DELETE FROM sources WHERE name = ?1")?;
            change
                .remove_sources
                .iter()
                .try_for_each(|name| remove_source.execute([name]).map(drop))?;
            transaction.execute("UPDATE state SET generation = generation + 1", [])?;
            Ok(ids)
        })
    }

    async fn list(&self) -> Result<Vec<DocumentEntry>, CatalogError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT * FROM entries ORDER BY source, path")?
                .query_map([], |row| entry(row, 0))?
                .collect()
        })
    }

    async fn load(&self, docs: &[DocId]) -> Result<Vec<Option<StoredDocument>>, CatalogError> {
        let sql = "SELECT leaf_ids, shape, text, entries.* FROM entries JOIN contents ON document = id WHERE id = ?1";
        let rows: Vec<_> = self.read(|connection| {
            let mut find = connection.prepare_cached(sql)?;
            docs.iter()
                .map(|doc| {
                    let stored = |row: &Row<'_>| {
                        Ok((entry(row, 3)?, leaf_ids(row, 0)?, row.get(1)?, row.get(2)?))
                    };
                    find.query_row([row_id(*doc)], stored).optional()
                })
                .collect()
        })?;
        // Decoding is outside of the read, so that others get on.
        let decode =
            |(entry, leaf_ids, shape, text): (DocumentEntry, Vec<LeafId>, Vec<u8>, String)| {
                let document = encode::document(text, &shape)
                    .map_err(|error| corrupt(&self.path, &error.to_string()))?;
                Ok(StoredDocument { entry, document, leaf_ids })
            };
        rows.into_iter().map(|row| row.map(decode).transpose()).collect()
    }

    async fn texts(
        &self,
        docs: &[DocId],
    ) -> Result<Vec<Option<(DocumentEntry, String)>>, CatalogError> {
        let sql =
            "SELECT text, entries.* FROM entries JOIN contents ON document = id WHERE id = ?1";
        self.read(|connection| {
            let mut find = connection.prepare_cached(sql)?;
            let text = |row: &Row<'_>| Ok((entry(row, 1)?, row.get(0)?));
            docs.iter().map(|&doc| find.query_row([row_id(doc)], text).optional()).collect()
        })
    }

    async fn pending(&self, limit: usize) -> Result<Pending, CatalogError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(|connection| {
            let documents = connection
                .prepare_cached("SELECT id FROM documents WHERE indexed = 0 ORDER BY id LIMIT ?1")?
                .query_map([limit], |row| row.get(0).map(doc_id))?
                .collect::<rusqlite::Result<_>>()?;
            let deletes = connection
                .prepare_cached("SELECT leaf FROM pending_deletes ORDER BY leaf LIMIT ?1")?
                .query_map([limit], |row| row.get(0).map(LeafId))?
                .collect::<rusqlite::Result<_>>()?;
            let clusters = clusters::pending(connection, limit)?;
            Ok(Pending { documents, deletes, clusters })
        })
    }

    async fn settle(&self, done: &Pending) -> Result<(), CatalogError> {
        self.write(|transaction| {
            let mut mark = transaction
                .prepare_cached("UPDATE documents SET indexed = 1 WHERE id = ?1 AND indexed = 0")?;
            done.documents.iter().try_for_each(|&doc| mark.execute([row_id(doc)]).map(drop))?;
            let mut forget =
                transaction.prepare_cached("DELETE FROM pending_deletes WHERE leaf = ?1")?;
            done.deletes.iter().try_for_each(|leaf| forget.execute([leaf.0]).map(drop))?;
            clusters::settle(transaction, &done.clusters)
        })
    }

    async fn unsettle(&self) -> Result<(), CatalogError> {
        self.write(|transaction| {
            transaction.execute("UPDATE documents SET indexed = 0 WHERE indexed = 1", []).map(drop)
        })
    }

    async fn cached(
        &self,
        model: &str,
        texts: &[[u8; 32]],
    ) -> Result<Vec<Option<Vec<f32>>>, CatalogError> {
        let sql = "SELECT vector FROM embeddings JOIN models ON model = id WHERE name = ?1 AND text_hash = ?2";
        self.read(|connection| {
            let mut find = connection.prepare_cached(sql)?;
            texts
                .iter()
                .map(|text| find.query_row(params![model, text], |row| vector(row, 0)).optional())
                .collect()
        })
    }

    async fn cache(
        &self,
        model: &str,
        vectors: &[([u8; 32], Vec<f32>)],
    ) -> Result<(), CatalogError> {
        let sql = "INSERT OR REPLACE INTO embeddings (model, text_hash, vector)
            VALUES ((SELECT id FROM models WHERE name = ?1), ?2, ?3)";
        self.write(|transaction| {
            transaction.execute("INSERT OR IGNORE INTO models (name) VALUES (?1)", [model])?;
            let mut put = transaction.prepare_cached(sql)?;
            vectors.iter().try_for_each(|(text, floats)| {
                put.execute(params![model, text, encode::vector(floats)]).map(drop)
            })
        })
    }

    async fn prune(&self, model: &str, keep: &BTreeSet<[u8; 32]>) -> Result<usize, CatalogError> {
        self.write(|transaction| {
            let others =
                "DELETE FROM embeddings WHERE model NOT IN (SELECT id FROM models WHERE name = ?1)";
            let n_of_others = transaction.execute(others, [model])?;
            transaction.execute("DELETE FROM models WHERE name <> ?1", [model])?;
            // The rows are found first: what a query gives while its table changes is not defined.
            let mut gone: Vec<i64> = Vec::new();
            let mut find = transaction.prepare("SELECT rowid, text_hash FROM embeddings")?;
            let mut rows = find.query([])?;
            while let Some(row) = rows.next()? {
                if !keep.contains(&row.get::<_, [u8; 32]>(1)?) {
                    gone.push(row.get(0)?);
                }
            }
            // In the order of the table, so that each of its pages is read once.
            gone.sort_unstable();
            let mut forget = transaction.prepare("DELETE FROM embeddings WHERE rowid = ?1")?;
            gone.iter().try_for_each(|row| forget.execute([row]).map(drop))?;
            Ok(n_of_others + gone.len())
        })
    }

    async fn mark(&self, run: NewRun) -> Result<ClusterRun, CatalogError> {
        self.write(|transaction| clusters::mark(transaction, &run))
    }

    async fn revert(&self, run: RunId) -> Result<bool, CatalogError> {
        self.write(|transaction| clusters::revert(transaction, run))
    }

    async fn runs(&self) -> Result<Vec<ClusterRun>, CatalogError> {
        self.read(clusters::runs)
    }

    async fn clusters_of(&self, leaves: &[LeafId]) -> Result<Vec<ClusterId>, CatalogError> {
        self.read(|connection| clusters::of_leaves(connection, leaves))
    }

    async fn members(&self, clusters: &[ClusterId]) -> Result<Vec<Vec<Member>>, CatalogError> {
        self.read(|connection| clusters::members(connection, clusters))
    }

    async fn clusters(&self) -> Result<Vec<(ClusterId, LeafId, DocId)>, CatalogError> {
        self.read(clusters::all)
    }

    async fn sketch(&self, sketches: &[StoredSketch]) -> Result<(), CatalogError> {
        self.write(|transaction| clusters::sketch(transaction, sketches))
    }

    async fn sketches(&self, rule: &str) -> Result<Vec<StoredSketch>, CatalogError> {
        self.read(|connection| clusters::sketches(connection, rule))
    }

    async fn compared(&self, rule: &str, pairs: &[StoredPair]) -> Result<(), CatalogError> {
        self.write(|transaction| clusters::compared(transaction, rule, pairs))
    }

    async fn pairs(&self, rule: &str) -> Result<Vec<StoredPair>, CatalogError> {
        self.read(|connection| clusters::pairs(connection, rule))
    }

    async fn compact(&self) -> Result<(), CatalogError> {
        let connection = lock(&self.writer);
        // The new file is in the log first. Where somebody reads on meanwhile, the log stays until the catalog is closed.
        let compacted = connection
            .execute_batch("VACUUM")
            .and_then(|()| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
        compacted.map_err(|error| catalog_error(&self.path, error))
    }
}

fn put_source(transaction: &Transaction<'_>, source: &Source) -> rusqlite::Result<()> {
    let sql = "INSERT INTO sources (name, root, rules) VALUES (?1, ?2, ?3)
        ON CONFLICT (name) DO UPDATE SET root = excluded.root, rules = excluded.rules";
    transaction
        .prepare_cached(sql)?
        .execute(params![source.name, root_bytes(&source.root), source.rules])
        .map(drop)
}

fn remove(transaction: &Transaction<'_>, doc: DocId) -> rusqlite::Result<()> {
    let sql = "SELECT leaf_ids FROM contents WHERE document = ?1";
    let leaves = transaction
        .prepare_cached(sql)?
        .query_row([row_id(doc)], |row| leaf_ids(row, 0))
        .optional()?;
    let leaves = leaves.unwrap_or_default();
    clusters::leave(transaction, &leaves)?;
    transaction.prepare_cached("DELETE FROM documents WHERE id = ?1")?.execute([row_id(doc)])?;
    owe_deletes(transaction, &leaves)
}

/// Adds a document (without an id), or replaces the one of this id.
const PUT_ENTRY: &str = "INSERT INTO documents
        (id, source, path, fingerprint, leaves, title, connector, url, updated_at, updated_from, labels, language)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
    ON CONFLICT (id) DO UPDATE SET
        fingerprint = excluded.fingerprint, leaves = excluded.leaves, indexed = 0, title = excluded.title,
        connector = excluded.connector, url = excluded.url, updated_at = excluded.updated_at,
        updated_from = excluded.updated_from, labels = excluded.labels, language = excluded.language";

/// Adds a document, or replaces the one of the same source and path, which keeps its id.
fn put(transaction: &Transaction<'_>, new: &NewDocument) -> rusqlite::Result<DocId> {
    let sql = "SELECT id, leaf_ids FROM documents JOIN contents ON document = id WHERE source = ?1 AND path = ?2";
    let before = transaction
        .prepare_cached(sql)?
        .query_row([&new.source, &new.path], |row| Ok((row.get(0)?, leaf_ids(row, 1)?)))
        .optional()?;
    let (id, leaves): (Option<i64>, Option<Vec<LeafId>>) = before.unzip();
    let leaves = leaves.unwrap_or_default();
    // All are owed here; those that stay are taken back below.
    owe_deletes(transaction, &leaves)?;
    let stay: BTreeSet<LeafId> = new.leaf_ids.iter().copied().collect();
    let gone: Vec<LeafId> = leaves.into_iter().filter(|leaf| !stay.contains(leaf)).collect();
    clusters::leave(transaction, &gone)?;
    if let Some(id) = id {
        transaction.prepare_cached("DELETE FROM sketches WHERE document = ?1")?.execute([id])?;
    }
    let Metadata { connector, url, updated, labels, language } = &new.metadata;
    let labels = serde_json::to_string(labels).expect("a list of strings always encodes");
    transaction.prepare_cached(PUT_ENTRY)?.execute(params![
        id,
        new.source,
        new.path,
        new.fingerprint,
        new.leaf_ids.len(),
        new.document.title,
        connector,
        url,
        updated.map(|updated| updated.at),
        updated.map(|updated| updated.from.name()),
        labels,
        language,
    ])?;
    let id = id.unwrap_or_else(|| transaction.last_insert_rowid());
    transaction
        .prepare_cached("INSERT OR REPLACE INTO contents (document, leaf_ids, shape, text) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![id, encode::leaf_ids(&new.leaf_ids), encode::shape(&new.document), new.document.text])?;
    let mut keep = transaction.prepare_cached("DELETE FROM pending_deletes WHERE leaf = ?1")?;
    new.leaf_ids.iter().try_for_each(|leaf| keep.execute([leaf.0]).map(drop))?;
    Ok(doc_id(id))
}

fn owe_deletes(transaction: &Transaction<'_>, leaves: &[LeafId]) -> rusqlite::Result<()> {
    let mut owe =
        transaction.prepare_cached("INSERT OR IGNORE INTO pending_deletes (leaf) VALUES (?1)")?;
    leaves.iter().try_for_each(|leaf| owe.execute([leaf.0]).map(drop))
}

/// A row of the view `entries`, which begins at this column.
fn entry(row: &Row<'_>, first: usize) -> rusqlite::Result<DocumentEntry> {
    Ok(DocumentEntry {
        id: doc_id(row.get(first)?),
        source: row.get(first + 1)?,
        path: row.get(first + 2)?,
        fingerprint: row.get(first + 3)?,
        leaves: row.get(first + 4)?,
        indexed: row.get(first + 5)?,
        title: row.get(first + 6)?,
        metadata: Metadata {
            connector: row.get(first + 7)?,
            url: row.get(first + 8)?,
            updated: updated(row, first + 9)?,
            labels: labels(row, first + 11)?,
            language: row.get(first + 12)?,
        },
        name: row.get(first + 13)?,
    })
}

/// A date and, in the column behind it, its source.
fn updated(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Updated>> {
    let Some(at) = row.get(column)? else { return Ok(None) };
    let name = row.get_ref(column + 1)?.as_str().map_err(|error| misread(column + 1, error))?;
    let unknown = || misread(column + 1, UnknownDateSource(name.to_owned()));
    Ok(Some(Updated { at, from: DateSource::of_name(name).ok_or_else(unknown)? }))
}

/// Only another version writes such a source.
#[derive(Debug, thiserror::Error)]
#[error("a date comes from `{0}`, which is not known")]
struct UnknownDateSource(String);

fn labels(row: &Row<'_>, column: usize) -> rusqlite::Result<BTreeSet<String>> {
    let json = row.get_ref(column)?.as_str().map_err(|error| misread(column, error))?;
    serde_json::from_str(json).map_err(|error| misread(column, error))
}

fn leaf_ids(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<LeafId>> {
    let bytes = row.get_ref(column)?.as_blob().map_err(|error| misread(column, error))?;
    encode::leaf_ids_of(bytes).map_err(|error| misread(column, error))
}

fn vector(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<f32>> {
    let bytes = row.get_ref(column)?.as_blob().map_err(|error| misread(column, error))?;
    encode::vector_of(bytes).map_err(|error| misread(column, error))
}

fn misread(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, Box::new(error))
}

/// Row ids are signed. No row has a negative one, so an id beyond their range is found nowhere.
fn row_id(doc: DocId) -> i64 {
    doc.0.cast_signed()
}

fn doc_id(row_id: i64) -> DocId {
    DocId(row_id.cast_unsigned())
}

#[cfg(unix)]
fn root_bytes(root: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    root.as_os_str().as_bytes().to_vec()
}

#[cfg(unix)]
fn root_path(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(not(unix))]
fn root_bytes(root: &Path) -> Vec<u8> {
    root.to_string_lossy().into_owned().into_bytes()
}

#[cfg(not(unix))]
fn root_path(bytes: Vec<u8>) -> PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// A panic while a lock was held has rolled its transaction back, so the connection is sound.
fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
