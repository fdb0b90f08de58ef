//! The conformance suite on a disk and in memory, files that are not catalogs, and a writer that is killed.

use super::file::{beside, connect_immutable, log_is_empty};
use super::*;
use crate::catalog::conformance::{self, new_document};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use umbel_core::document::Document;

/// The result of a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the catalog blocks, it never waits"),
    }
}

/// Another one in each run, which is printed, or `UMBEL_SEED`.
fn any_seed() -> u64 {
    let given = std::env::var("UMBEL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("UMBEL_SEED={seed}");
    seed
}

fn on_disk(folder: &Path) -> impl AsyncFn(&str) -> Arc<dyn Catalog> {
    async |name| {
        let catalog: Arc<dyn Catalog> =
            Arc::new(SqliteCatalog::open(&folder.join(format!("{name}.db"))).unwrap());
        catalog
    }
}

fn in_memory() -> impl AsyncFn(&str) -> Arc<dyn Catalog> {
    let kept: Mutex<BTreeMap<String, Arc<dyn Catalog>>> = Mutex::default();
    async move |name| {
        let mut kept = kept.lock().unwrap();
        let made = || Arc::new(SqliteCatalog::in_memory().unwrap());
        Arc::clone(kept.entry(name.to_owned()).or_insert_with(|| made()))
    }
}

/// A change that puts documents of the source `a`, given as (path, text).
fn put_all(documents: &[(&str, &str)]) -> Change {
    let sources = vec![Source { name: "a".to_owned(), root: "/a".into(), rules: String::new() }];
    let put = documents.iter().map(|(path, text)| new_document("a", path, text)).collect();
    Change { sources, put, ..Change::default() }
}

/// The texts of a catalog, by path.
fn texts(catalog: &SqliteCatalog) -> BTreeMap<String, String> {
    let ids: Vec<DocId> = now(catalog.list()).unwrap().iter().map(|entry| entry.id).collect();
    let loaded = now(catalog.load(&ids)).unwrap().into_iter().flatten();
    loaded.map(|stored| (stored.entry.path, stored.document.text)).collect()
}

/// The bytes of a closed catalog with some text in it.
fn catalog_bytes(folder: &Path) -> Vec<u8> {
    let path = folder.join("whole.db");
    let catalog = SqliteCatalog::open(&path).unwrap();
    now(catalog.commit(put_all(&[("a.md", &"some text\n".repeat(3000))]))).unwrap();
    drop(catalog);
    fs_err::read(&path).unwrap()
}

/// Opens a file with these bytes, in both ways; the file must stay as it is.
fn open_bytes(bytes: &[u8]) -> CatalogError {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    fs_err::write(&path, bytes).unwrap();
    let read_only = SqliteCatalog::open_read_only(&path).unwrap_err();
    let error = SqliteCatalog::open(&path).unwrap_err();
    assert_eq!(read_only.to_string(), error.to_string());
    assert!(fs_err::read(&path).unwrap() == bytes, "a file that is refused is left as it is");
    error
}

#[test]
fn it_conforms_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    now(conformance::fixed_cases(on_disk(folder.path())));
    now(conformance::random_calls(on_disk(folder.path()), any_seed(), 100));
}

#[test]
fn it_conforms_in_memory() {
    now(conformance::fixed_cases(in_memory()));
    (0..5)
        .for_each(|n| now(conformance::random_calls(in_memory(), any_seed().wrapping_add(n), 200)));
}

#[test]
fn a_file_that_is_no_catalog_is_corrupt() {
    let folder = tempfile::tempdir().unwrap();
    let whole = catalog_bytes(folder.path());
    let other = folder.path().join("other.db");
    Connection::open(&other)
        .unwrap()
        .execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
        .unwrap();
    let mut damaged = vec![
        Vec::new(),
        b"not a database".to_vec(),
        vec![7; 100_000],
        fs_err::read(&other).unwrap(),
    ];
    damaged.extend(
        [1, 15, 16, 99, 100, 4095, 4096, 5000, whole.len() - 4096, whole.len() - 1]
            .map(|n| whole[..n].to_vec()),
    );
    for bytes in damaged {
        let error = open_bytes(&bytes);
        assert!(matches!(error, CatalogError::Corrupt { .. }), "{} bytes: {error:?}", bytes.len());
    }
}

#[test]
fn another_format_is_named() {
    for found in [0, FORMAT_VERSION + 1] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.db");
        create(&path).unwrap();
        Connection::open(&path).unwrap().pragma_update(None, "user_version", found).unwrap();
        let error = open_bytes(&fs_err::read(&path).unwrap());
        assert!(matches!(error, CatalogError::Version { found: f, .. } if f == found), "{error:?}");
    }
}

/// A file of format 1 in this folder.
fn format_1(folder: &Path) -> PathBuf {
    let path = folder.join("it.db");
    Connection::open(&path).unwrap().execute_batch(include_str!("format_1.sql")).unwrap();
    path
}

/// All that `format_1.sql` holds is here, in the newest format.
fn check_format_1(catalog: &SqliteCatalog) {
    let info = now(catalog.describe()).unwrap();
    assert_eq!((info.generation, info.documents, info.leaves, info.pending), (4, 1, 2, 2));
    assert_eq!(info.settings["model"], "m");
    assert_eq!(
        now(catalog.sources()).unwrap(),
        [Source { name: "docs".to_owned(), root: "/data".into(), rules: String::new() }]
    );
    let document = conformance::sample("\u{feff}# Ä\n\none two\r\n");
    let listed = now(catalog.list()).unwrap();
    assert_eq!(
        listed,
        [DocumentEntry {
            id: DocId(7),
            source: "docs".to_owned(),
            path: "a.md".to_owned(),
            name: "a.md".to_owned(),
            title: document.title.clone(),
            metadata: Metadata::default(),
            fingerprint: [5; 32],
            leaves: 2,
            indexed: false,
        }]
    );
    let stored = now(catalog.load(&[DocId(7)])).unwrap().pop().flatten().unwrap();
    assert_eq!(stored.entry, listed[0]);
    assert_eq!(stored.document, Document { anchors: Vec::new(), ..document });
    assert_eq!(stored.leaf_ids, [LeafId([1; 16]), LeafId([2; 16])]);
    let pending =
        Pending { documents: vec![DocId(7)], deletes: vec![LeafId([3; 16])], ..Pending::default() };
    assert_eq!(now(catalog.pending(9)).unwrap(), pending);
    assert_eq!(now(catalog.cached("m", &[[4; 32]])).unwrap(), [Some(vec![1.0, -2.0])]);
}

/// The file has format 1, and nothing was changed in it.
fn check_is_format_1(path: &Path) {
    let error = SqliteCatalog::open_read_only(path).unwrap_err();
    assert!(
        matches!(error, CatalogError::Outdated { found: 1, newest: FORMAT_VERSION, .. }),
        "{error:?}"
    );
    let folder = tempfile::tempdir().unwrap();
    let sample = Connection::open(format_1(folder.path())).unwrap();
    let found = Connection::open(path).unwrap();
    assert_eq!(schema(&found), schema(&sample));
    let state = |connection: &Connection| -> (i64, i64) {
        let sql = "SELECT generation, not_indexed FROM state";
        connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    assert_eq!(state(&found), state(&sample));
}

/// Everything that is defined in a database, by name, without blanks.
fn schema(connection: &Connection) -> BTreeMap<String, String> {
    let mut all = connection.prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema").unwrap();
    let row = |row: &Row<'_>| {
        let sql: String = row.get(1)?;
        Ok((row.get(0)?, sql.chars().filter(|char| !char.is_whitespace()).collect()))
    };
    all.query_map([], row).unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

#[test]
fn a_catalog_of_format_1_is_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let path = format_1(folder.path());
    check_is_format_1(&path);
    for _ in 0..2 {
        check_format_1(&SqliteCatalog::open(&path).unwrap());
        check_format_1(&SqliteCatalog::open_read_only(&path).unwrap());
    }
    let catalog = SqliteCatalog::open(&path).unwrap();
    let new = put_all(&[("b.md", "one\n")]);
    now(catalog.commit(new)).unwrap();
    assert_eq!(now(catalog.describe()).unwrap().documents, 2);
}

#[test]
fn a_copy_of_an_older_catalog_is_migrated_and_the_file_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = format_1(folder.path());
    let before = fs_err::read(&path).unwrap();
    check_format_1(&SqliteCatalog::open_copy(&path).unwrap());
    assert_eq!(fs_err::read(&path).unwrap(), before);
    check_is_format_1(&path);
    // One whose file has a log, as a crash leaves it, is copied with what stands there.
    let writer = Connection::open(&path).unwrap();
    prepare_writer(&writer).unwrap();
    writer.execute("UPDATE settings SET value = 'late' WHERE key = 'model'", []).unwrap();
    let copy = SqliteCatalog::open_copy(&path).unwrap();
    assert_eq!(now(copy.describe()).unwrap().settings["model"], "late");
}

#[test]
fn a_migrated_catalog_has_the_schema_of_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = format_1(folder.path());
    let migrated = SqliteCatalog::open(&path).unwrap();
    let new = SqliteCatalog::in_memory().unwrap();
    assert_eq!(schema(&lock(&migrated.writer)), schema(&lock(&new.writer)));
}

#[test]
fn a_migration_that_is_killed_leaves_the_old_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = format_1(folder.path());
    let mut connection = Connection::open(&path).unwrap();
    prepare_writer(&connection).unwrap();
    connection.pragma_update(None, "cache_size", 1).unwrap();
    let transaction = connection.transaction().unwrap();
    migrate::apply(&transaction).unwrap();
    assert_eq!(migrate::format(&transaction).unwrap(), FORMAT_VERSION);
    // What a kill leaves behind is what is on the disk now.
    let left = folder.path().join("left.db");
    fs_err::copy(&path, &left).unwrap();
    fs_err::copy(beside(&path, "-wal"), beside(&left, "-wal")).unwrap();
    drop(transaction);
    drop(connection);
    for path in [left, path] {
        check_is_format_1(&path);
        check_format_1(&SqliteCatalog::open(&path).unwrap());
    }
}

#[test]
fn a_migration_that_fails_leaves_the_old_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = format_1(folder.path());
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("DROP VIEW entries").unwrap();
    let before = schema(&connection);
    let error = SqliteCatalog::open(&path).unwrap_err();
    assert!(matches!(error, CatalogError::Database { .. }), "{error:?}");
    assert_eq!(migrate::format(&connection).unwrap(), 1);
    assert_eq!(schema(&connection), before);
}

#[test]
fn a_damaged_document_is_migrated_without_a_title() {
    let folder = tempfile::tempdir().unwrap();
    let path = format_1(folder.path());
    let damage = "UPDATE contents SET shape = x'01ff'";
    Connection::open(&path).unwrap().execute_batch(damage).unwrap();
    let catalog = SqliteCatalog::open(&path).unwrap();
    assert_eq!(now(catalog.list()).unwrap()[0].title, "");
    let error = now(catalog.load(&[DocId(7)])).unwrap_err();
    assert!(matches!(error, CatalogError::Corrupt { .. }), "{error:?}");
}

#[test]
fn every_format_that_opens_has_a_way_to_the_newest() {
    let from: Vec<i64> = migrate::MIGRATIONS.iter().map(|&(from, _)| from).collect();
    assert_eq!(from, (OLDEST_READABLE..FORMAT_VERSION).collect::<Vec<_>>());
}

/// All that `format_2.sql` and `format_3.sql` hold of documents is here.
fn check_formats_2_and_3(catalog: &SqliteCatalog) {
    let info = now(catalog.describe()).unwrap();
    assert_eq!((info.generation, info.documents, info.leaves), (3, 2, 2));
    assert_eq!(info.settings["model"], "m");
    let rules = "connector = \"wiki\"\n".to_owned();
    assert_eq!(
        now(catalog.sources()).unwrap(),
        [Source { name: "docs".to_owned(), root: "/data".into(), rules }]
    );
    let document = conformance::sample("\u{feff}# Ä\n\none two\r\n");
    let metadata = Metadata {
        connector: Some("wiki".to_owned()),
        url: Some("https://example.org/a".to_owned()),
        updated: Some(Updated { at: 1_714_521_600, from: DateSource::FrontMatter }),
        labels: ["a b", "ä"].map(ToOwned::to_owned).into(),
        language: Some("en".to_owned()),
    };
    let stored = now(catalog.load(&[DocId(7)])).unwrap().pop().flatten().unwrap();
    assert_eq!((&stored.entry.title, &stored.entry.metadata), (&document.title, &metadata));
    assert_eq!((stored.entry.fingerprint, stored.entry.indexed), ([5; 32], true));
    assert_eq!(stored.document, document);
    assert_eq!(stored.leaf_ids, [LeafId([1; 16]), LeafId([2; 16])]);
    let stored = now(catalog.load(&[DocId(9)])).unwrap().pop().flatten().unwrap();
    assert_eq!(stored.document, conformance::sample(""));
    assert_eq!((stored.entry.path.as_str(), stored.entry.title.as_str()), ("b.md", ""));
    assert_eq!((stored.entry.metadata, stored.entry.indexed), (Metadata::default(), false));
    let pending = now(catalog.pending(9)).unwrap();
    assert_eq!((pending.documents, pending.deletes), (vec![DocId(9)], vec![LeafId([3; 16])]));
    assert_eq!(now(catalog.cached("m", &[[4; 32]])).unwrap(), [Some(vec![1.0, -2.0])]);
}

#[test]
fn a_catalog_of_format_2_is_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    Connection::open(&path).unwrap().execute_batch(include_str!("format_2.sql")).unwrap();
    let error = SqliteCatalog::open_read_only(&path).unwrap_err();
    assert!(matches!(error, CatalogError::Outdated { found: 2, .. }), "{error:?}");
    let catalog = SqliteCatalog::open(&path).unwrap();
    check_formats_2_and_3(&catalog);
    let info = now(catalog.describe()).unwrap();
    assert_eq!((info.pending, info.cluster_run), (2, None), "each leaf is its own cluster");
    assert_eq!(now(catalog.sketches("near")).unwrap(), []);
}

#[test]
fn a_catalog_of_format_3_opens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    Connection::open(&path).unwrap().execute_batch(include_str!("format_3.sql")).unwrap();
    assert_eq!(
        schema(&Connection::open(&path).unwrap()),
        schema(&lock(&SqliteCatalog::in_memory().unwrap().writer)),
        "the schema changed: raise FORMAT_VERSION, and write a migration"
    );
    for catalog in [SqliteCatalog::open_read_only(&path), SqliteCatalog::open(&path)] {
        let catalog = catalog.unwrap();
        check_formats_2_and_3(&catalog);
        let info = now(catalog.describe()).unwrap();
        assert_eq!((info.pending, info.cluster_run), (3, Some(RunId(4))));
        let [one, two] = [1, 2].map(|n| LeafId([n; 16]));
        let cluster = ClusterId([8; 16]);
        let pending = now(catalog.pending(9)).unwrap();
        assert_eq!(pending.clusters, [(two, cluster)]);
        let members = [(cluster, one, DocId(7)), (cluster, two, DocId(7))];
        assert_eq!(now(catalog.clusters()).unwrap(), members);
        let run = |id, reverted| ClusterRun {
            id: RunId(id),
            method: r#"{"method":"near","jaccard":0.8}"#.to_owned(),
            at: 1_714_521_600,
            leaves: 2,
            clusters: 1,
            members: 2,
            reverted,
        };
        assert_eq!(now(catalog.runs()).unwrap(), [run(5, true), run(4, false)]);
        let sketch = StoredSketch {
            leaf: one,
            doc: DocId(7),
            words: [6; 16],
            sketch: vec![1, 2, 3],
            compared: true,
        };
        assert_eq!(now(catalog.sketches("near")).unwrap(), [sketch]);
        let pair = StoredPair { a: [6; 16], b: [7; 16], similarity: 0.5 };
        assert_eq!(now(catalog.pairs("near")).unwrap(), [pair]);
    }
}

#[test]
fn damaged_metadata_are_corrupt() {
    for damage in ["labels = '[1]'", "labels = ''", "updated_at = 1, updated_from = 'rumour'"] {
        let catalog = SqliteCatalog::in_memory().unwrap();
        now(catalog.commit(put_all(&[("a.md", "one\n")]))).unwrap();
        lock(&catalog.writer).execute(&format!("UPDATE documents SET {damage}"), []).unwrap();
        let error = now(catalog.list()).unwrap_err();
        assert!(matches!(error, CatalogError::Corrupt { .. }), "{damage}: {error:?}");
    }
}

#[test]
fn compacting_gives_space_back_also_beside_readers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    let catalog = SqliteCatalog::open(&path).unwrap();
    let size_bytes = || fs_err::metadata(&path).unwrap().len();
    let big = "text ".repeat(20_000);
    now(catalog.commit(put_all(&[("a.md", "one\n")]))).unwrap();
    now(catalog.compact()).unwrap();
    let small = size_bytes();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(texts(&SqliteCatalog::open_read_only(&path).unwrap())["a.md"], "one\n");
            }
        });
        for _ in 0..10 {
            let ids = now(catalog.commit(put_all(&[("b.md", &big)]))).unwrap();
            now(catalog.compact()).unwrap();
            now(catalog.commit(Change { remove: ids, ..Change::default() })).unwrap();
            now(catalog.compact()).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let ids = now(catalog.commit(put_all(&[("b.md", &big)]))).unwrap();
    now(catalog.compact()).unwrap();
    assert!(size_bytes() > small + 100_000);
    now(catalog.commit(Change { remove: ids, ..Change::default() })).unwrap();
    now(catalog.compact()).unwrap();
    assert_eq!(size_bytes(), small);
    assert!(log_is_empty(&path));
    let reader = SqliteCatalog::open_read_only(&path).unwrap();
    for error in [now(reader.compact()), now(reader.prune("m", &BTreeSet::new())).map(drop)] {
        assert!(matches!(error, Err(CatalogError::Unwritable { .. })), "{error:?}");
    }
}

#[test]
fn damaged_contents_are_corrupt() {
    for damage in ["shape = x'0100'", "leaf_ids = x'00'", "text = CAST(x'ff' AS TEXT)", "text = ''"]
    {
        let catalog = SqliteCatalog::in_memory().unwrap();
        let ids = now(catalog.commit(put_all(&[("a.md", "one\n")]))).unwrap();
        lock(&catalog.writer).execute(&format!("UPDATE contents SET {damage}"), []).unwrap();
        let error = now(catalog.load(&ids)).unwrap_err();
        assert!(matches!(error, CatalogError::Corrupt { .. }), "{damage}: {error:?}");
        match now(catalog.texts(&ids)) {
            Ok(texts) => assert_eq!(texts[0].as_ref().unwrap().0.id, ids[0], "{damage}"),
            Err(CatalogError::Corrupt { .. }) => assert!(damage.contains("ff")),
            Err(error) => panic!("{damage}: {error:?}"),
        }
    }
}

#[test]
fn what_cannot_be_written_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    for nowhere in [folder.path().join("no/folder/it.db"), folder.path().to_owned()] {
        let error = SqliteCatalog::open(&nowhere).unwrap_err();
        assert!(matches!(error, CatalogError::Unwritable { .. }), "{error:?}");
    }
    let catalog = SqliteCatalog::open(&path).unwrap();
    now(catalog.commit(put_all(&[("a.md", "one\n")]))).unwrap();
    lock(&catalog.writer).pragma_update_and_check(None, "max_page_count", 60, |_| Ok(())).unwrap();
    let big = "too much\n".repeat(100_000);
    let error = now(catalog.commit(put_all(&[("a.md", "two\n"), ("b.md", &big)]))).unwrap_err();
    assert!(matches!(error, CatalogError::Unwritable { .. }), "{error:?}");
    assert_eq!(texts(&catalog), BTreeMap::from([("a.md".to_owned(), "one\n".to_owned())]));
    assert_eq!(now(catalog.describe()).unwrap().generation, 1);
    now(catalog.commit(put_all(&[("a.md", "three\n")]))).expect("what fits is still committed");
}

#[test]
fn a_reader_works_beside_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it ä?#%.db");
    let missing = SqliteCatalog::open_read_only(&path).unwrap_err();
    assert!(matches!(missing, CatalogError::Corrupt { .. }), "{missing:?}");
    let writer = SqliteCatalog::open(&path).unwrap();
    let reader = SqliteCatalog::open_read_only(&path).unwrap();
    for text in ["one", "two"] {
        now(writer.commit(put_all(&[("a.md", text)]))).unwrap();
        assert_eq!(texts(&reader)["a.md"], text);
    }
    let error = now(reader.commit(put_all(&[("b.md", "three")]))).unwrap_err();
    assert!(matches!(error, CatalogError::Unwritable { .. }), "{error:?}");
    drop(writer);
    assert_eq!(texts(&reader)["a.md"], "two");
    drop(reader);
    drop(SqliteCatalog::open(&path).unwrap());
    assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1, "a closed catalog is one file");
    assert_eq!(texts(&SqliteCatalog::open_read_only(&path).unwrap())["a.md"], "two");
    let immutable = connect_immutable(&path).unwrap();
    assert_eq!(
        immutable
            .query_row("SELECT text FROM contents", [], |row| row.get::<_, String>(0))
            .unwrap(),
        "two"
    );
}

#[test]
fn reads_do_not_wait_for_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = SqliteCatalog::open(&folder.path().join("it.db")).unwrap();
    now(catalog.commit(put_all(&[("a.md", "one")]))).unwrap();
    let commit = lock(&catalog.writer);
    commit.execute_batch("BEGIN IMMEDIATE; UPDATE contents SET text = 'two'").unwrap();
    assert_eq!(texts(&catalog)["a.md"], "one");
}

#[test]
fn a_half_made_file_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    fs_err::write(beside(&path, ".new"), b"half").unwrap();
    fs_err::write(beside(&path, ".new-journal"), b"half").unwrap();
    assert_eq!(now(SqliteCatalog::open(&path).unwrap().describe()).unwrap().documents, 0);
    fs_err::rename(&path, beside(&path, "-wal")).unwrap();
    let log_alone = SqliteCatalog::open(&path).unwrap_err();
    assert!(matches!(log_alone, CatalogError::Corrupt { .. }), "{log_alone:?}");
}

#[test]
fn a_text_is_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    let text = "wholly unlike any other text";
    now(SqliteCatalog::open(&path)
        .unwrap()
        .commit(put_all(&[("a.md", &format!("# Title\n\n{text}\n"))])))
    .unwrap();
    let bytes = fs_err::read(&path).unwrap();
    assert_eq!(bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count(), 1);
}

/// Where the child of the kill test works; set only for it.
const KILL_ENV: &str = "UMBEL_TEST_KILL_CATALOG";
const KILL_TEST: &str =
    "catalog::sqlite::tests::a_killed_writer_loses_nothing_that_it_acknowledged";
const SLOTS: u64 = 7;

/// What commit number `n` (from 1) does: it puts six documents that all say `n`, five of them in place of those of commit
/// `n - SLOTS`, and removes the sixth one of the commit before.
fn numbered_change(catalog: &SqliteCatalog, n: u64) -> Change {
    let text =
        |i: u64| format!("commit {n}\n{}", format!("line {i} of {n}\n").repeat((i * 40) as usize));
    let documents: Vec<(String, String)> =
        (0..5).map(|i| (format!("{}/{i}", n % SLOTS), text(i))).collect();
    let fleeting = (format!("fleeting/{n}"), text(1));
    let borrowed: Vec<(&str, &str)> = documents
        .iter()
        .chain([&fleeting])
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let remove = now(catalog.list())
        .unwrap()
        .into_iter()
        .filter(|entry| entry.path.starts_with("fleeting/"));
    Change { remove: remove.map(|entry| entry.id).collect(), ..put_all(&borrowed) }
}

/// Commits until it is killed, and says so after each commit.
fn commit_for_ever(path: &Path) -> ! {
    let catalog = SqliteCatalog::open(path).unwrap();
    loop {
        let n = now(catalog.describe()).unwrap().generation + 1;
        now(catalog.commit(numbered_change(&catalog, n))).unwrap();
        writeln!(std::io::stdout(), "acknowledged {n}").unwrap();
    }
}

/// All documents are those of the commits up to the generation, which is returned.
fn check_whole(catalog: &SqliteCatalog) -> u64 {
    let info = now(catalog.describe()).unwrap();
    let n = info.generation;
    let mut want = BTreeMap::new();
    for at in n.saturating_sub(SLOTS - 1).max(1)..=n {
        let put = numbered_change(catalog, at).put;
        want.extend(put.into_iter().map(|new| (new.path, new.document.text)));
    }
    want.retain(|path, _| !path.starts_with("fleeting/") || *path == format!("fleeting/{n}"));
    assert_eq!(texts(catalog), want);
    assert_eq!(info.documents, want.len());
    assert_eq!(
        info.leaves,
        now(catalog.list()).unwrap().iter().map(|entry| entry.leaves).sum::<usize>()
    );
    let pending = now(catalog.pending(usize::MAX)).unwrap();
    assert_eq!(info.pending, pending.documents.len() + pending.deletes.len());
    n
}

/// A kill leaves what was written to the operating system; a power cut would also test the syncs.
#[test]
fn a_killed_writer_loses_nothing_that_it_acknowledged() {
    if let Some(path) = std::env::var_os(KILL_ENV) {
        commit_for_ever(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    let mut random = any_seed();
    let mut n_before = 0;
    for round in 0..20 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", KILL_TEST, "--nocapture"])
            .env(KILL_ENV, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((random >> 33) % 120_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let lines = output.lines().map_while(Result::ok);
        // The first line also holds the name of the test.
        let numbers =
            lines.filter_map(|line| line.split_once("acknowledged ")?.1.parse::<u64>().ok());
        let last = numbers.last();
        if !path.exists() {
            assert_eq!(last, None);
            continue;
        }
        let beside_the_log = check_whole(&SqliteCatalog::open_read_only(&path).unwrap());
        let catalog = SqliteCatalog::open(&path).unwrap();
        let n = check_whole(&catalog);
        assert_eq!(n, beside_the_log);
        // The number before is known where this child acknowledged none.
        let acknowledged = last.unwrap_or(n_before);
        assert!(
            n == acknowledged || n == acknowledged + 1,
            "round {round}: {n} commits, {acknowledged} acknowledged"
        );
        n_before = n;
    }
    assert!(n_before > SLOTS, "the kills came before any work");
}
