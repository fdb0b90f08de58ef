//! Leaves in a folder, searched in this process by the Qdrant engine.
//!
//! Invariant: whatever was flushed is there after a crash; a folder that was damaged opens as [`IndexError::Corrupt`] or with
//! the damage repaired, never half.
//!
//! The engine (qdrant-edge 0.7.2) leaves this to its user, and so this room does it:
//! - It never replays its log, so nothing since the last flush may be counted on. What the catalog does not know to be
//!   flushed, deletes included, is done again after `open`.
//! - It never shortens its log, though only the number of the last record is ever used: closed parts go at each flush.
//! - A growing segment costs time quadratic in its size, so one is sealed at about `SEAL_POINTS` points.
//! - `flush` and `drop` panic where the disk is full, or where another thread is writing.

mod clusters;

use super::exact::{check_leg, check_points, rank};
use super::payload::{self, PayloadError};
use super::{Clause, Index, IndexError, IndexInfo, Kept, Leg, Point, Scored, SearchRequest, Test};
use fs_err as fs;
use qdrant_edge::external::uuid::Uuid;
use qdrant_edge::{
    AnyVariants, Condition, CreateIndex, Distance, EdgeConfig, EdgeOptimizersConfig, EdgeShard,
    EdgeSparseVectorParams, EdgeVectorParams, FieldCondition, FieldIndexOperations, Filter,
    IntegerIndexParams, KeywordIndexParams, Match, MatchAny, Modifier, NamedQuery, OperationResult,
    Payload, PayloadFieldSchema, PayloadSchemaParams, PointId, PointInsertOperations,
    PointOperations, PointStructPersisted, QueryEnum, QueryRequest, Range, ScoringQuery,
    ScrollRequest, SearchParams, UpdateOperation, UuidIndexParams, VectorInternal, VectorPersisted,
    VectorStructPersisted, WalOptions, WithPayloadInterface, WithVector,
};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use umbel_core::id::{ClusterId, LeafId};

/// Names of the two vectors of a point.
const DENSE: &str = "dense";
const LEXICAL: &str = "lexical";

/// A growing segment is sealed at about this many points.
///
/// Source: bulk loads of 20, 40 and 60 thousand points into one segment took 3, 11 and 25 s; sealed at 10,000 they are linear.
const SEAL_POINTS: usize = 10_000;
/// Segments that may stand beside each other while loading, so that a load merges nothing twice before 500,000 points.
const LOADING_SEGMENTS: usize = 50;
/// Points handed to the engine at once.
const BATCH_POINTS: usize = 1_000;
/// A merged segment holds about this many points: while it is merged, its postings and its graph are in memory.
const MERGED_POINTS: usize = 100_000;
/// Bytes of a passage's lexical vector: about 100 terms of 8 bytes in a growing segment, and what the engine reckons in a sealed
/// one, measured over 175,000 leaves.
const GROWING_LEXICAL_BYTES: usize = 800;
const SEALED_LEXICAL_BYTES: usize = 240;
/// Free bytes of the disk below which nothing is written. The engine writes through memory maps of sparse files: where the
/// disk is full, the process is killed by SIGBUS. A batch takes some 30 MB at the most; merges check for their own need.
const FREE_BYTES: u64 = 128 << 20;
/// Size of one part of the engine's log. Its own default of 32 MiB is for a server.
const LOG_PART_BYTES: usize = 4 << 20;

/// Stands in the folder while everything is flushed, and holds the number of leaves.
const FLUSHED: &str = "flushed";
/// Locked while the index is open.
const LOCK: &str = "lock";
/// Where the engine keeps its log, and where it builds segments.
const LOG: &str = "wal";
const UNFINISHED_SEGMENTS: &str = "temp_segments";

/// How an embedded index is made and opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeOptions {
    /// Length of the dense vectors; `None` for leaves without vectors.
    pub dimension: Option<usize>,
}

/// An index in a folder of its own.
///
/// Every call does its work in the thread that polls it: a search takes about a millisecond, an upsert or
/// [`optimize`](Index::optimize) as long as it takes. Searches run beside each other and beside one writer; writers take turns.
#[derive(Debug)]
pub struct EdgeIndex {
    path: PathBuf,
    dimension: Option<usize>,
    /// `None` only while it is dropped.
    shard: Option<EdgeShard>,
    /// Held by whoever writes: the engine's `flush` panics beside another writer.
    writer: Mutex<Writer>,
    _lock: fs::File,
}

#[derive(Debug)]
struct Writer {
    /// Whether [`FLUSHED`] stands in the folder.
    flushed: bool,
}

/// What the engine said when it panicked.
#[derive(Debug, thiserror::Error)]
#[error("qdrant-edge panicked: {0}")]
struct EnginePanic(String);

/// A disk that is nearly full.
#[derive(Debug, thiserror::Error)]
#[error("the disk has {free} bytes left, less than the {wanted} that writing may take")]
struct DiskFull {
    free: u64,
    wanted: u64,
}

/// What is wrong with a folder that opens.
#[derive(Debug, thiserror::Error)]
enum DamageError {
    #[error("point `{0}` is not named by a leaf id")]
    PointId(PointId),
    #[error("point `{0}` has no payload")]
    NoPayload(LeafId),
    #[error("point `{0}` has a payload that is not of a leaf")]
    Payload(LeafId, #[source] PayloadError),
    #[error("{points} points, but only {ids} ids")]
    Twice { points: usize, ids: usize },
    #[error("the engine ignores a write: its log is older than its segments")]
    Ignored,
    #[error("{flushed} points were flushed, but {points} are there")]
    Lost { flushed: usize, points: usize },
}

impl EdgeIndex {
    /// Opens the index in this folder, or makes one, and the folder too, where there is none.
    ///
    /// After a crash it costs a walk over all points, O(leaves), and what the crash left half done is taken away or finished.
    ///
    /// # Errors
    /// [`IndexError::Dimension`]: the folder holds vectors of another length. [`IndexError::Corrupt`]: delete the folder,
    /// open it anew and fill it from the catalog. [`IndexError::Engine`]: the folder cannot be written, or it is open already,
    /// here or in another process.
    pub fn open(path: &Path, options: &EdgeOptions) -> Result<EdgeIndex, IndexError> {
        fs::create_dir_all(path).map_err(refusal("open"))?;
        let lock = fs::File::create(path.join(LOCK)).map_err(refusal("open"))?;
        lock.file().try_lock().map_err(refusal("lock"))?;
        // The engine writes as it opens; and a folder that only lacks space is not corrupt.
        check_space(path)?;
        if let Some(Ok(stored)) = EdgeConfig::load(path) {
            let stored = stored.vectors.get(DENSE).map(|vector| vector.size);
            if stored != options.dimension {
                return Err(IndexError::Dimension {
                    wanted: stored.unwrap_or(0),
                    got: options.dimension.unwrap_or(0),
                });
            }
        }
        let unfinished = path.join(UNFINISHED_SEGMENTS);
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(refusal("open"))?;
        }
        // Without the folder the engine cannot tell how much space is left for a merge, and tries.
        fs::create_dir(&unfinished).map_err(refusal("open"))?;
        let flushed = fs::read_to_string(path.join(FLUSHED))
            .ok()
            .and_then(|points| points.parse::<usize>().ok());
        let corrupt = |error: IndexError| match error {
            IndexError::Engine { source, .. } => {
                IndexError::Corrupt { path: path.to_owned(), source }
            }
            other => other,
        };
        let shard = attempt("open", || EdgeShard::load(path, Some(config(options.dimension))))
            .map_err(corrupt)?;
        let index = EdgeIndex {
            path: path.to_owned(),
            dimension: options.dimension,
            shard: Some(shard),
            writer: Mutex::new(Writer { flushed: flushed.is_some() }),
            _lock: lock,
        };
        index.index_fields().map_err(corrupt)?;
        match flushed {
            Some(flushed) => index.check_count(flushed).map_err(corrupt)?,
            None => index.repair().map_err(corrupt)?,
        }
        Ok(index)
    }

    fn shard(&self) -> &EdgeShard {
        self.shard.as_ref().expect("the shard leaves only when the index is dropped")
    }

    fn damage(&self, damage: DamageError) -> IndexError {
        IndexError::Corrupt { path: self.path.clone(), source: Box::new(damage) }
    }

    /// The turn to write. A writer that panicked leaves nothing behind that the next one relies on.
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn to write, with no [`FLUSHED`] in the folder.
    fn start_writing(&self) -> Result<MutexGuard<'_, Writer>, IndexError> {
        let mut writer = self.writer();
        check_space(&self.path)?;
        if writer.flushed {
            let unmark = || {
                fs::remove_file(self.path.join(FLUSHED))?;
                sync_folder(&self.path)
            };
            unmark().map_err(refusal("mark the index as not flushed"))?;
            writer.flushed = false;
        }
        Ok(writer)
    }

    fn n_points(&self) -> Result<usize, IndexError> {
        attempt("count the leaves", || Ok(self.shard().info().points_count))
    }

    /// The engine forgets a segment whose version file is missing: the number of leaves tells.
    fn check_count(&self, flushed: usize) -> Result<(), IndexError> {
        let points = self.n_points()?;
        if points == flushed {
            Ok(())
        } else {
            Err(self.damage(DamageError::Lost { flushed, points }))
        }
    }

    fn update(&self, verb: &'static str, operation: PointOperations) -> Result<(), IndexError> {
        attempt(verb, || self.shard().update(UpdateOperation::PointOperation(operation)))
    }

    /// Has the engine index the fields that filters look at, in every segment that does not yet.
    fn index_fields(&self) -> Result<(), IndexError> {
        let integers = |lookup, range| {
            let (lookup, range) = (Some(lookup), Some(range));
            PayloadSchemaParams::Integer(IntegerIndexParams {
                lookup,
                range,
                on_disk: Some(true),
                ..IntegerIndexParams::default()
            })
        };
        let words = || {
            let on_disk = Some(true);
            PayloadSchemaParams::Keyword(KeywordIndexParams {
                on_disk,
                ..KeywordIndexParams::default()
            })
        };
        let facets = payload::FACETS.map(|facet| (payload::facet_field(facet), words()));
        let uuid = PayloadSchemaParams::Uuid(UuidIndexParams {
            on_disk: Some(true),
            ..UuidIndexParams::default()
        });
        let numbers =
            [(payload::DOC, integers(true, false)), (payload::UPDATED_AT, integers(false, true))];
        let fields = numbers.into_iter().chain(facets).chain([(payload::CLUSTER, uuid)]);
        for (field, params) in fields {
            let create = CreateIndex {
                field_name: path_of(field),
                field_schema: Some(PayloadFieldSchema::FieldParams(params)),
            };
            let operation =
                UpdateOperation::FieldIndexOperation(FieldIndexOperations::CreateIndex(create));
            attempt("index a field", || self.shard().update(operation))?;
        }
        Ok(())
    }

    /// Stores a batch. A point that is there is deleted first, not overwritten: so no flushed data changes in place, and a
    /// crash leaves the old point or the new one. (Overwriting one in a sealed segment would also keep the vectors that the new
    /// point has not.)
    fn store(&self, points: Vec<Point>) -> Result<(), IndexError> {
        check_space(&self.path)?;
        let ids: Vec<PointId> = points.iter().map(|point| point_id(point.record.leaf)).collect();
        let present = self.present(&ids)?;
        if !present.is_empty() {
            self.remove(&present)?;
        }
        let points = points.into_iter().map(engine_point).collect();
        self.update(
            "store leaves",
            PointOperations::UpsertPoints(PointInsertOperations::PointsList(points)),
        )?;
        self.tidy("seal a segment")
    }

    /// Which of these are there.
    fn present(&self, ids: &[PointId]) -> Result<Vec<PointId>, IndexError> {
        let records = attempt("look up leaves", || {
            self.shard().retrieve(
                ids,
                Some(WithPayloadInterface::Bool(false)),
                Some(WithVector::Bool(false)),
            )
        })?;
        Ok(records.into_iter().map(|record| record.id).collect())
    }

    /// Deletes points, and looks whether they are gone: the engine takes no write whose number is below that of the point, and
    /// says nothing. The numbers are those of the log, which starts anew where its files were lost.
    fn remove(&self, ids: &[PointId]) -> Result<(), IndexError> {
        self.update("delete leaves", PointOperations::DeletePoints { ids: ids.to_vec() })?;
        if self.present(ids)?.is_empty() { Ok(()) } else { Err(self.damage(DamageError::Ignored)) }
    }

    /// Lets the engine do what its settings call for; nothing, in little time, if nothing does.
    fn tidy(&self, verb: &'static str) -> Result<(), IndexError> {
        if attempt(verb, || self.shard().optimize())? {
            self.index_fields()?;
        }
        Ok(())
    }

    /// Merges segments as these settings say.
    fn merge(&self, optimizers: EdgeOptimizersConfig) -> Result<(), IndexError> {
        self.with_optimizers(optimizers, || self.tidy("merge segments"))
    }

    /// Does something under these settings, and goes back to those of a load.
    fn with_optimizers(
        &self,
        optimizers: EdgeOptimizersConfig,
        work: impl FnOnce() -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        attempt("set the optimizers", || self.shard().set_optimizers_config(optimizers))?;
        let done = work();
        attempt("set the optimizers", || {
            self.shard().set_optimizers_config(loading(self.dimension))
        })?;
        done
    }

    fn fetch_now(&self, leaves: &[LeafId]) -> Result<Vec<Option<Kept>>, IndexError> {
        let ids: Vec<PointId> = leaves.iter().copied().map(point_id).collect();
        let records = attempt("fetch leaves", || {
            self.shard().retrieve(
                &ids,
                Some(WithPayloadInterface::Bool(true)),
                Some(WithVector::Bool(false)),
            )
        })?;
        let found: Result<HashMap<LeafId, Kept>, IndexError> = records
            .into_iter()
            .map(|record| self.kept(record.id, record.payload).map(|kept| (kept.record.leaf, kept)))
            .collect();
        let found = found?;
        Ok(leaves.iter().map(|leaf| found.get(leaf).cloned()).collect())
    }

    fn flush_now(&self, writer: &mut Writer) -> Result<(), IndexError> {
        if writer.flushed {
            return Ok(());
        }
        attempt("flush", || {
            self.shard().flush();
            Ok(())
        })?;
        let points = self.n_points()?;
        let mark = || {
            shorten_log(&self.path.join(LOG))?;
            let mut file = fs::File::create(self.path.join(FLUSHED))?;
            file.write_all(points.to_string().as_bytes())?;
            file.sync_all()?;
            sync_folder(&self.path)
        };
        mark().map_err(refusal("mark the index as flushed"))?;
        writer.flushed = true;
        Ok(())
    }

    /// Takes away or finishes what a crash left half done.
    fn repair(&self) -> Result<(), IndexError> {
        let mut writer = self.writer();
        let ids = self.drop_unreadable()?;
        let mut points = self.n_points()?;
        if points != ids {
            // A crash behind a merge, before the old segments were deleted: merging both sets leaves one. The merge
            // optimizer wants three segments; that for indexing takes two, if one is over its threshold (in KiB).
            self.merge(EdgeOptimizersConfig {
                indexing_threshold: Some(1),
                ..merging(self.dimension)
            })?;
            points = self.n_points()?;
        }
        if points != ids {
            return Err(self.damage(DamageError::Twice { points, ids }));
        }
        self.flush_now(&mut writer)
    }

    /// Deletes points whose payload was lost; how many are left.
    fn drop_unreadable(&self) -> Result<usize, IndexError> {
        let mut n_readable = 0;
        let mut offset = None;
        loop {
            let request =
                ScrollRequest { offset, limit: Some(SEAL_POINTS), ..ScrollRequest::default() };
            let (records, next) = attempt("walk over the leaves", || self.shard().scroll(request))?;
            let (readable, unreadable): (Vec<_>, Vec<_>) = records
                .into_iter()
                .map(|record| (record.id, self.kept(record.id, record.payload)))
                .partition(|(_, r)| r.is_ok());
            n_readable += readable.len();
            if !unreadable.is_empty() {
                let ids: Vec<PointId> = unreadable.into_iter().map(|(id, _)| id).collect();
                self.remove(&ids)?;
            }
            match next {
                Some(next) => offset = Some(next),
                None => return Ok(n_readable),
            }
        }
    }

    fn kept(&self, id: PointId, payload: Option<Payload>) -> Result<Kept, IndexError> {
        let PointId::Uuid(uuid) = id else {
            return Err(self.damage(DamageError::PointId(id)));
        };
        let leaf = LeafId(uuid.into_bytes());
        let fields = payload.ok_or_else(|| self.damage(DamageError::NoPayload(leaf)))?.0;
        payload::decode(leaf, fields)
            .map_err(|error| self.damage(DamageError::Payload(leaf, error)))
    }
}

#[async_trait::async_trait]
impl Index for EdgeIndex {
    async fn describe(&self) -> Result<IndexInfo, IndexError> {
        Ok(IndexInfo { back_end: "edge", dimension: self.dimension, points: self.n_points()? })
    }

    async fn upsert(&self, points: Vec<Point>) -> Result<(), IndexError> {
        check_points(self.dimension, &points)?;
        let _writer = self.start_writing()?;
        let mut points = points.into_iter();
        loop {
            let batch: Vec<Point> = points.by_ref().take(BATCH_POINTS).collect();
            if batch.is_empty() {
                return Ok(());
            }
            self.store(batch)?;
        }
    }

    async fn delete(&self, leaves: &[LeafId]) -> Result<(), IndexError> {
        let _writer = self.start_writing()?;
        self.remove(&leaves.iter().copied().map(point_id).collect::<Vec<_>>())
    }

    /// The engine copies a point of a sealed segment to a growing one, vectors and all; what is left behind is taken away by
    /// [`optimize`](Index::optimize).
    async fn assign(&self, clusters: &[(LeafId, ClusterId)]) -> Result<(), IndexError> {
        let _writer = self.start_writing()?;
        let wanted: BTreeMap<LeafId, ClusterId> = clusters.iter().copied().collect();
        let mut wanted: Vec<(LeafId, ClusterId)> = wanted.into_iter().collect();
        // Leaves of one cluster are written at once.
        wanted.sort_by_key(|&(_, cluster)| cluster);
        // A sealed segment would be built anew each time that a fifth of it has moved.
        let settings =
            EdgeOptimizersConfig { deleted_threshold: Some(1.0), ..loading(self.dimension) };
        self.with_optimizers(settings, || {
            wanted.chunks(BATCH_POINTS).try_for_each(|batch| self.write_clusters(batch))
        })
    }

    async fn search(&self, request: &SearchRequest) -> Result<Vec<Scored>, IndexError> {
        check_leg(self.dimension, &request.leg)?;
        // The engine makes room for as many hits as are asked for.
        let limit = request.limit.min(self.n_points()?);
        if limit == 0 {
            return Ok(Vec::new());
        }
        let query = engine_query(request, limit);
        let hits = attempt("search", || self.shard().query(query))?;
        let found: Result<Vec<_>, IndexError> = hits
            .into_iter()
            .map(|hit| Ok((hit.score, self.kept(hit.id, hit.payload)?.record)))
            .collect();
        Ok(rank(found?, limit)
            .into_iter()
            .map(|(score, record)| Scored { record, score })
            .collect())
    }

    async fn fetch(&self, leaves: &[LeafId]) -> Result<Vec<Option<Kept>>, IndexError> {
        self.fetch_now(leaves)
    }

    async fn flush(&self) -> Result<(), IndexError> {
        self.flush_now(&mut self.writer())
    }

    /// Segments of about 100,000 leaves are left, beside an empty one to write to, and they are flushed. Costs O(leaves) as soon
    /// as one leaf of each was deleted or replaced, or there are three small segments: about 15 s for 100,000 leaves of 384
    /// dimensions on two cores. The memory that it takes does not grow with the index.
    async fn optimize(&self) -> Result<(), IndexError> {
        let mut writer = self.start_writing()?;
        self.merge(EdgeOptimizersConfig {
            max_segment_size: Some(kib_of(self.dimension, MERGED_POINTS, SEALED_LEXICAL_BYTES)),
            ..merging(self.dimension)
        })?;
        self.flush_now(&mut writer)
    }
}

impl Drop for EdgeIndex {
    fn drop(&mut self) {
        // The engine flushes once more, but an error has nobody to go to here: only `flush` marks the folder as flushed.
        let shard = self.shard.take();
        let _ = attempt("close", || {
            drop(shard);
            Ok(())
        });
    }
}

/// Runs a call of the engine; its errors and its panics become an [`IndexError`].
///
/// Panics have to be caught: `EdgeShard::flush`, and so its `drop`, calls `expect` on every file operation, which a full disk
/// makes fail, and damaged files are read past their end.
fn attempt<T>(
    verb: &'static str,
    call: impl FnOnce() -> OperationResult<T>,
) -> Result<T, IndexError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(refusal(verb)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text =
                text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(refusal(verb)(EnginePanic(text.to_owned())))
        }
    }
}

fn refusal<E: std::error::Error + Send + Sync + 'static>(
    verb: &'static str,
) -> impl FnOnce(E) -> IndexError {
    move |error| IndexError::Engine { verb, source: Box::new(error) }
}

fn check_space(path: &Path) -> Result<(), IndexError> {
    let verb = "write to the disk";
    let free = fs4::available_space(path).map_err(refusal(verb))?;
    if free >= FREE_BYTES {
        Ok(())
    } else {
        Err(refusal(verb)(DiskFull { free, wanted: FREE_BYTES }))
    }
}

/// Makes a new or removed file of this folder last through a power cut, where the system can.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) { fs::File::open(path)?.sync_all() } else { Ok(()) }
}

/// Deletes the closed parts of the engine's log but the last, which carries the number of the next record.
fn shorten_log(log: &Path) -> io::Result<()> {
    let mut closed = Vec::new();
    for entry in fs::read_dir(log)? {
        let entry = entry?;
        let name = entry.file_name();
        let first = name
            .to_str()
            .and_then(|name| name.strip_prefix("closed-"))
            .and_then(|first| first.parse::<u64>().ok());
        closed.extend(first.map(|first| (first, entry.path())));
    }
    closed.sort_unstable();
    closed.pop();
    closed.into_iter().try_for_each(|(_, part)| fs::remove_file(part))
}

fn config(dimension: Option<usize>) -> EdgeConfig {
    let lexical = EdgeSparseVectorParams::builder().modifier(Modifier::Idf).on_disk(true).build();
    let mut config =
        EdgeConfig::builder().sparse_vector(LEXICAL, lexical).optimizers(loading(dimension));
    if let Some(size) = dimension {
        config = config.vector(DENSE, EdgeVectorParams::builder(size, Distance::Cosine).build());
    }
    let log = WalOptions { segment_capacity: LOG_PART_BYTES, ..WalOptions::default() };
    config.wal_options(log).build()
}

/// Optimizers for a load: they seal what has grown to `SEAL_POINTS`, and leave sealed segments alone.
fn loading(dimension: Option<usize>) -> EdgeOptimizersConfig {
    EdgeOptimizersConfig {
        default_segment_number: Some(LOADING_SEGMENTS),
        indexing_threshold: Some(kib_of(dimension, SEAL_POINTS, GROWING_LEXICAL_BYTES)),
        // In KiB, and the engine multiplies without overflow.
        max_segment_size: Some(usize::MAX),
        ..EdgeOptimizersConfig::default()
    }
}

/// The size of so many points as the engine reckons it, in KiB.
fn kib_of(dimension: Option<usize>, points: usize, lexical_bytes: usize) -> usize {
    let bytes_per_point =
        dimension.map_or(0, |dimension| dimension * size_of::<f32>()).max(lexical_bytes);
    points * bytes_per_point / 1024
}

/// Optimizers that leave one segment, and nothing deleted in it.
fn merging(dimension: Option<usize>) -> EdgeOptimizersConfig {
    EdgeOptimizersConfig {
        default_segment_number: Some(1),
        deleted_threshold: Some(0.0),
        vacuum_min_vector_number: Some(1),
        ..loading(dimension)
    }
}

/// A field of the payload.
fn path_of<P: std::str::FromStr<Err: std::fmt::Debug>>(field: &str) -> P {
    field.parse().expect("one plain word is a JSON path")
}

fn point_id(leaf: LeafId) -> PointId {
    PointId::Uuid(Uuid::from_bytes(leaf.0))
}

fn engine_terms(terms: super::SparseVector) -> qdrant_edge::SparseVector {
    qdrant_edge::SparseVector { indices: terms.indices, values: terms.values }
}

fn engine_point(point: Point) -> PointStructPersisted {
    let Point { record, facets, dense, lexical } = point;
    let mut vectors = HashMap::new();
    if let Some(dense) = dense {
        vectors.insert(DENSE.to_owned(), VectorPersisted::Dense(dense));
    }
    // Left out if empty, so that the engine does not count it among the passages.
    if !lexical.indices.is_empty() {
        vectors.insert(LEXICAL.to_owned(), VectorPersisted::Sparse(engine_terms(lexical)));
    }
    PointStructPersisted {
        id: point_id(record.leaf),
        vector: VectorStructPersisted::Named(vectors),
        payload: Some(Payload(payload::encode(&record, facets))),
    }
}

fn engine_query(request: &SearchRequest, limit: usize) -> QueryRequest {
    let (query, params) = match &request.leg {
        Leg::Dense(vector) => {
            // A beam no wider than the list would miss many of its last entries.
            let params = SearchParams {
                hnsw_ef: Some(limit.saturating_mul(2).max(128)),
                ..SearchParams::default()
            };
            (NamedQuery::new(VectorInternal::Dense(vector.clone()), DENSE), Some(params))
        }
        Leg::Lexical(terms) => {
            (NamedQuery::new(VectorInternal::Sparse(engine_terms(terms.clone())), LEXICAL), None)
        }
    };
    let filter = (!request.filter.is_empty()).then(|| {
        let side = |negated| {
            let clauses = request.filter.iter().filter(|clause| clause.negated == negated);
            Some(clauses.map(condition).collect())
        };
        Filter { must: side(false), must_not: side(true), should: None, min_should: None }
    });
    QueryRequest {
        prefetches: Vec::new(),
        query: Some(ScoringQuery::Vector(QueryEnum::Nearest(query))),
        filter,
        score_threshold: None,
        limit,
        offset: 0,
        params,
        with_vector: WithVector::Bool(false),
        with_payload: WithPayloadInterface::Bool(true),
    }
}

/// The test of a clause.
fn condition(clause: &Clause) -> Condition {
    let matches =
        |field, any| FieldCondition::new_match(path_of(field), Match::Any(MatchAny { any }));
    Condition::Field(match &clause.test {
        Test::Docs(docs) => {
            let keys = docs.iter().copied().map(payload::doc_key).collect();
            matches(payload::DOC, AnyVariants::Integers(keys))
        }
        Test::Clusters(clusters) => {
            let keys =
                clusters.iter().map(|&cluster| payload::cluster_key(cluster).as_str().into());
            matches(payload::CLUSTER, AnyVariants::Strings(keys.collect()))
        }
        Test::Facet(facet, words) => {
            let words = words.iter().map(|word| word.as_str().into()).collect();
            matches(payload::facet_field(*facet), AnyVariants::Strings(words))
        }
        Test::Updated { from, to } => {
            // Exact up to 2^53 seconds from 1970, beyond any date that is read.
            let float = |seconds: i64| (seconds as f64).into();
            let range = Range { gte: from.map(float), lt: to.map(float), gt: None, lte: None };
            FieldCondition::new_range(path_of(payload::UPDATED_AT), range)
        }
    })
}

#[cfg(test)]
mod tests;
