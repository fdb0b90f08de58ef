//! A path → a connection to a catalog of a version that this one reads, or the reason why there is none.
//!
//! Invariant: a file that is no such catalog is left as it is; a new one appears under its name when it is whole.

use super::{FORMAT_VERSION, OLDEST_READABLE, SCHEMA};
use crate::catalog::CatalogError;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `Umbl`: tells a catalog from the files of other applications.
const APPLICATION_ID: i64 = 0x556d_626c;
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
pub(super) const READ_ONLY: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
pub(super) const READ_WRITE: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Whether there is a file that can be a catalog.
pub(super) fn is_there(path: &Path) -> Result<bool, CatalogError> {
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
pub(super) fn create(path: &Path) -> Result<(), CatalogError> {
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
pub(super) fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs_err::File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
pub(super) fn sync_folder(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Whether the write-ahead log holds nothing that the file lacks.
pub(super) fn log_is_empty(path: &Path) -> bool {
    fs_err::metadata(beside(path, "-wal")).map_or(true, |log| log.len() == 0)
}

pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Opens a file that exists and makes sure that it is a catalog of a version that this one reads.
pub(super) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, CatalogError> {
    connect_as(path, path, flags)
}

/// [`connect`], where SQLite is to be given something else than the path.
pub(super) fn connect_as(
    path: &Path,
    name: &Path,
    flags: OpenFlags,
) -> Result<Connection, CatalogError> {
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
pub(super) fn check_file(path: &Path, connection: &Connection) -> Result<i64, CatalogError> {
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
pub(super) fn connect_immutable(path: &Path) -> Result<Connection, CatalogError> {
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

pub(super) fn prepare_writer(connection: &Connection) -> rusqlite::Result<()> {
    // The answer is the mode: `wal`, or `memory` for a catalog in memory.
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)
}

pub(super) fn corrupt(path: &Path, detail: &str) -> CatalogError {
    CatalogError::Corrupt { path: path.to_owned(), detail: detail.to_owned() }
}

pub(super) fn unwritable(
    path: &Path,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> CatalogError {
    CatalogError::Unwritable { path: path.to_owned(), source: source.into() }
}

pub(super) fn catalog_error(path: &Path, error: rusqlite::Error) -> CatalogError {
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
