//! Batches of tokens → rows, on threads of their own.
//!
//! Invariant: rows come back in the order given, whatever the batches; the caller's executor is not blocked.

use std::cmp::Reverse;
use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use futures_channel::oneshot;
use rten::ThreadPool;

use super::weights::Precision;
use super::{LocalError, Tokens};

/// Texts that go through a model together, where its weights are full.
///
/// Source: measured with the default model at 125 tokens a text, workers of one core each: batches of 1, 2 and 4 took 26.5,
/// 25.0 and 26.0 ms of CPU time per text, batches of 8 and 16 a fifth to a half more.
const BATCH_TEXTS: usize = 2;

type Rows<T> = Result<Vec<T>, LocalError>;

/// A batch on its way to a thread.
struct Job<T> {
    texts: Vec<Tokens>,
    reply: oneshot::Sender<Rows<T>>,
}

/// Threads that empty one queue of batches, where a text becomes a `T`. They end when the pool is dropped.
pub(crate) struct Pool<T> {
    queue: mpsc::Sender<Job<T>>,
    /// Texts of a batch.
    n_texts: usize,
}

/// How texts and cores are shared out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    /// Texts of a batch, at most.
    batch: usize,
    /// Batches at a time.
    workers: usize,
    /// Cores that work on a batch.
    cores: usize,
}

impl Shares {
    /// For many texts: each core takes batches of its own. Batches this small do not feed two: with two cores to a batch, two
    /// cores embedded 47 texts a second, with one to a batch 70.
    pub(crate) fn many(n_cores: usize, precision: Precision) -> Self {
        Self {
            batch: match precision {
                Precision::Full => BATCH_TEXTS,
                // States are rounded by what the whole batch has, so a text would depend on the others.
                Precision::Int8 => 1,
            },
            workers: n_cores,
            cores: 1,
        }
    }

    /// For one text at a time, on all cores.
    pub(crate) fn single(n_cores: usize) -> Self {
        Self { batch: 1, workers: 1, cores: n_cores }
    }
}

impl<T: Send + 'static> Pool<T> {
    /// Starts the threads.
    pub(crate) fn start<R>(run: &Arc<R>, name: &str, shares: Shares) -> io::Result<Self>
    where
        R: Fn(&[Tokens], &Arc<ThreadPool>) -> Rows<T> + Send + Sync + 'static,
    {
        let (queue, jobs) = mpsc::channel::<Job<T>>();
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..shares.workers {
            let (run, jobs) = (Arc::clone(run), Arc::clone(&jobs));
            let runtime = Arc::new(ThreadPool::with_num_threads(shares.cores));
            thread::Builder::new().name(name.to_owned()).spawn(move || {
                work(&jobs, |texts| run(texts, &runtime));
            })?;
        }
        Ok(Self { queue, n_texts: shares.batch })
    }

    /// The row of each text, in the order given.
    ///
    /// # Errors
    /// What went wrong with the first batch that failed.
    pub(crate) async fn run(&self, texts: Vec<Tokens>) -> Rows<T> {
        let mut texts: Vec<(usize, Tokens)> = texts.into_iter().enumerate().collect();
        // Neighbours of like length need little padding; the longest first, so that the cores finish together.
        texts.sort_by_key(|(position, tokens)| (Reverse(tokens.ids.len()), *position));
        let mut rows: Vec<Option<T>> = texts.iter().map(|_| None).collect();

        let mut batches = Vec::with_capacity(texts.len().div_ceil(self.n_texts));
        let mut texts = texts.into_iter().peekable();
        while texts.peek().is_some() {
            let (positions, tokens): (Vec<_>, Vec<_>) = texts.by_ref().take(self.n_texts).unzip();
            batches.push((positions, self.submit(tokens)));
        }
        for (positions, reply) in batches {
            let batch = reply.await.map_err(|_canceled| LocalError::WorkerGone)??;
            for (position, row) in positions.into_iter().zip(batch) {
                rows[position] = Some(row);
            }
        }
        Ok(rows.into_iter().map(|row| row.expect("a batch gives a row for each text")).collect())
    }

    fn submit(&self, texts: Vec<Tokens>) -> oneshot::Receiver<Rows<T>> {
        let (reply, receiver) = oneshot::channel();
        // If every worker is gone the job and its sender are dropped here, and the receiver says so.
        drop(self.queue.send(Job { texts, reply }));
        receiver
    }
}

fn work<T>(jobs: &Mutex<mpsc::Receiver<Job<T>>>, run: impl Fn(&[Tokens]) -> Rows<T>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { texts, reply }) = job else { return };
        // The caller may have given up meanwhile: then neither the work nor its result is wanted.
        if !reply.is_canceled() {
            drop(reply.send(run(&texts)));
        }
    }
}
