//! The port on one SQLite file.
//!
//! Invariant: a call is one transaction, which is on the disk when the call returns; one that fails changes nothing.

mod migrate;

use super::{
    Catalog, CatalogError, CatalogInfo, Change, DocumentEntry, NewDocument, Pending, Source,
    StoredDocument,
};
use crate::catalog::encode;
use crate::metadata::{DateSource, Metadata, Updated};
use rusqlite::types::Type;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior,
    ffi, params,
};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use umbel_core::id::{DocId, LeafId};

/// The format that this version writes.
pub const FORMAT_VERSION: i64 = 2;
/// The oldest format that opens: [`SqliteCatalog::open`] brings it to the one above.
pub const OLDEST_READABLE: i64 = 1;

/// `Umbl`: tells a catalog from the files of other applications.
const APPLICATION_ID: i64 = 0x556d_626c;
const SCHEMA: &str = include_str!("sqlite/schema.sql");
/// How long a call waits for another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The input and output errors that a full or broken disk gives where it is written.
const FAILED_WRITES: [i32; 7] = [
    ffi::SQLITE_IOERR_WRITE,
    ffi::SQLITE_IOERR_FSYNC,
    ffi::SQLITE_IOERR_DIR_FSYNC,
    ffi::SQLITE_IOERR_TRUNCATE,
    ffi::SQLITE_IOERR_SHMOPEN,
    ffi::SQLITE_IOERR_SHMSIZE,
    ffi::SQLITE_IOERR_SHMMAP,
];
/// What a connection keeps of the file: room for the names of some 50,000 documents. SQLite's default of 2 MiB is full at
/// 5,000, and then `list` takes three times as long.
const CACHE_SIZE_KIB: i64 = 16 * 1024;
const READ_ONLY: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
const READ_WRITE: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

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
        if !is_there(path)? {
            return Err(corrupt(path, "there is no such file"));
        }
        let reader = match connect(path, READ_ONLY) {
            // A read-only file system cannot hold the log's index. Without a log there is nothing to miss.
            Err(CatalogError::Unwritable { .. }) if log_is_empty(path) => connect_immutable(path)?,
            other => other?,
        };
        Ok(SqliteCatalog { path: path.to_owned(), reader: None, writer: Mutex::new(reader) })
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
            let sql =
                "SELECT generation, documents, leaves, not_indexed + pending_deletes FROM state";
            connection.prepare_cached(sql)?.query_row([], |row| {
                Ok(CatalogInfo {
                    generation: row.get::<_, i64>(0)?.cast_unsigned(),
                    documents: row.get(1)?,
                    leaves: row.get(2)?,
                    pending: row.get(3)?,
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
            Ok(Pending { documents, deletes })
        })
    }

    async fn settle(&self, done: &Pending) -> Result<(), CatalogError> {
        self.write(|transaction| {
            let mut mark = transaction
                .prepare_cached("UPDATE documents SET indexed = 1 WHERE id = ?1 AND indexed = 0")?;
            done.documents.iter().try_for_each(|&doc| mark.execute([row_id(doc)]).map(drop))?;
            let mut forget =
                transaction.prepare_cached("DELETE FROM pending_deletes WHERE leaf = ?1")?;
            done.deletes.iter().try_for_each(|leaf| forget.execute([leaf.0]).map(drop))
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
    transaction.prepare_cached("DELETE FROM documents WHERE id = ?1")?.execute([row_id(doc)])?;
    owe_deletes(transaction, &leaves.unwrap_or_default())
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
    let (id, leaves): (Option<i64>, Option<_>) = before.unzip();
    // All are owed here; those that stay are taken back below.
    owe_deletes(transaction, &leaves.unwrap_or_default())?;
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

/// Whether there is a file that can be a catalog.
fn is_there(path: &Path) -> Result<bool, CatalogError> {
    match fs_err::metadata(path) {
        Ok(found) if found.len() == 0 => Err(corrupt(path, "the file is empty")),
        Ok(_) => Ok(true),
        // SQLite would apply such a log to the new file.
        Err(error) if error.kind() == ErrorKind::NotFound && !log_is_empty(path) => {
            Err(corrupt(path, "the file is gone, but its log is there"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(unwritable(path, error)),
    }
}

/// Makes an empty catalog. The file appears under its name when it is whole.
fn create(path: &Path) -> Result<(), CatalogError> {
    let draft = beside(path, ".new");
    for left_over in [&draft, &beside(path, ".new-journal")] {
        match fs_err::remove_file(left_over) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(unwritable(path, error));
            }
            _ => {}
        }
    }
    let made = Connection::open(&draft).and_then(|connection| {
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", FORMAT_VERSION)?;
        connection.execute_batch(&format!("BEGIN; {SCHEMA} COMMIT;"))?;
        connection.close().map_err(|(_, error)| error)
    });
    made.map_err(|error| catalog_error(path, error))?;
    fs_err::rename(&draft, path).map_err(|error| unwritable(path, error))?;
    sync_folder(path).map_err(|error| unwritable(path, error))
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs_err::File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Whether the write-ahead log holds nothing that the file lacks.
fn log_is_empty(path: &Path) -> bool {
    fs_err::metadata(beside(path, "-wal")).map_or(true, |log| log.len() == 0)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Opens a file that exists and makes sure that it is a catalog of a version that this one reads.
fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, CatalogError> {
    connect_as(path, path, flags)
}

/// [`connect`], where SQLite is to be given something else than the path.
fn connect_as(path: &Path, name: &Path, flags: OpenFlags) -> Result<Connection, CatalogError> {
    let opened = Connection::open_with_flags(name, flags).and_then(|connection| {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "cache_size", CACHE_SIZE_KIB.wrapping_neg())?;
        Ok(connection)
    });
    let connection = opened.map_err(|error| catalog_error(path, error))?;
    let found = {
        // Within a transaction no writer makes the file shorter.
        let transaction = connection.unchecked_transaction();
        check_file(path, &*transaction.map_err(|error| catalog_error(path, error))?)?
    };
    if found < FORMAT_VERSION && flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        return Err(CatalogError::Outdated {
            path: path.to_owned(),
            found,
            newest: FORMAT_VERSION,
        });
    }
    Ok(connection)
}

/// The format of a catalog that this version reads.
fn check_file(path: &Path, connection: &Connection) -> Result<i64, CatalogError> {
    let [application, found, n_pages, page_size] =
        ["application_id", "user_version", "page_count", "page_size"]
            .map(|pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)));
    let number = |value: rusqlite::Result<i64>| value.map_err(|error| catalog_error(path, error));
    if number(application)? != APPLICATION_ID {
        return Err(corrupt(path, "it is the file of another application"));
    }
    let found = number(found)?;
    if !(OLDEST_READABLE..=FORMAT_VERSION).contains(&found) {
        let path = path.to_owned();
        return Err(CatalogError::Version {
            path,
            found,
            oldest: OLDEST_READABLE,
            newest: FORMAT_VERSION,
        });
    }
    // Pages that the file lacks may be in the log. This order holds beside a writer that commits or closes meanwhile.
    let size_bytes = number(n_pages)?.saturating_mul(number(page_size)?).cast_unsigned();
    let all_is_in_file = log_is_empty(path);
    let file = fs_err::metadata(path).map_err(|error| unwritable(path, error))?;
    if all_is_in_file && file.len() < size_bytes {
        return Err(corrupt(path, "it is cut short"));
    }
    Ok(found)
}

/// Opens a file that nobody can change.
fn connect_immutable(path: &Path) -> Result<Connection, CatalogError> {
    let path_escaped = path.as_os_str().as_encoded_bytes().iter().fold(
        String::new(),
        |escaped, &byte| match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                escaped + &char::from(byte).to_string()
            }
            _ => escaped + &format!("%{byte:02X}"),
        },
    );
    let uri = format!("file:{path_escaped}?immutable=1");
    connect_as(path, Path::new(&uri), READ_ONLY.union(OpenFlags::SQLITE_OPEN_URI))
}

fn prepare_writer(connection: &Connection) -> rusqlite::Result<()> {
    // The answer is the mode: `wal`, or `memory` for a catalog in memory.
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)
}

fn corrupt(path: &Path, detail: &str) -> CatalogError {
    CatalogError::Corrupt { path: path.to_owned(), detail: detail.to_owned() }
}

fn unwritable(
    path: &Path,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> CatalogError {
    CatalogError::Unwritable { path: path.to_owned(), source: source.into() }
}

fn catalog_error(path: &Path, error: rusqlite::Error) -> CatalogError {
    use rusqlite::Error as E;
    let misread = matches!(
        error,
        E::FromSqlConversionFailure(..) | E::InvalidColumnType(..) | E::IntegralValueOutOfRange(..)
    );
    match error.sqlite_error().map(|failure| (failure.code, failure.extended_code)) {
        Some((ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase, _)) => {
            corrupt(path, &error.to_string())
        }
        None if misread => corrupt(path, &error.to_string()),
        Some((
            ErrorCode::DiskFull
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied,
            _,
        )) => unwritable(path, error),
        Some((ErrorCode::SystemIoFailure, code)) if FAILED_WRITES.contains(&code) => {
            unwritable(path, error)
        }
        _ => CatalogError::Database { path: path.to_owned(), source: error.into() },
    }
}

#[cfg(test)]
mod tests;
