//! Blocking calls → futures that block no executor.
//!
//! Invariant: at most `n` calls run at once. A call whose future was dropped is not begun; one that runs learns that nobody
//! waits. The threads end when the workers are dropped and what runs has ended.

use std::fmt;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use futures_channel::oneshot;

use super::Wanted;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that empty one queue.
pub(crate) struct Workers {
    queue: mpsc::Sender<Job>,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Workers")
    }
}

/// The thread that ran a call ended early.
#[derive(Debug, thiserror::Error)]
#[error("the thread that spoke with the server ended early")]
pub(crate) struct Gone;

impl Workers {
    /// Starts `n` threads.
    pub(crate) fn start(name: &str, n: usize) -> io::Result<Self> {
        let (queue, jobs) = mpsc::channel::<Job>();
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..n {
            let jobs = Arc::clone(&jobs);
            thread::Builder::new().name(name.to_owned()).spawn(move || work(&jobs))?;
        }
        Ok(Self { queue })
    }

    /// Puts a call into the queue at once, and gives its result when awaited.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        call: impl FnOnce(Wanted<'_>) -> T + Send + 'static,
    ) -> Reply<T> {
        let (reply, receiver) = oneshot::channel();
        let job = Box::new(move || {
            if !reply.is_canceled() {
                let result = call(&|| !reply.is_canceled());
                drop(reply.send(result));
            }
        });
        // If every thread is gone the job and its sender are dropped here, and the receiver says so.
        drop(self.queue.send(job));
        Reply(receiver)
    }
}

/// A call in the queue or on its way. Dropping it gives the call up.
pub(crate) struct Reply<T>(oneshot::Receiver<T>);

impl<T> Reply<T> {
    pub(crate) async fn get(self) -> Result<T, Gone> {
        self.0.await.map_err(|_canceled| Gone)
    }
}

fn work(jobs: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // A call that panics drops its sender, which is how its caller learns of it; the thread is there for the next one.
        drop(panic::catch_unwind(AssertUnwindSafe(job)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::block_on;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn no_more_calls_run_at_once_than_there_are_threads() {
        let workers = Workers::start("test", 2).unwrap();
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let replies: Vec<_> = (0..8)
            .map(|n| {
                let (running, most) = (Arc::clone(&running), Arc::clone(&most));
                workers.submit(move |_| {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(5));
                    running.fetch_sub(1, Ordering::SeqCst);
                    n
                })
            })
            .collect();
        let results: Vec<usize> =
            replies.into_iter().map(|reply| block_on(reply.get()).unwrap()).collect();
        assert_eq!(results, (0..8).collect::<Vec<_>>());
        assert!(most.load(Ordering::SeqCst) <= 2);
    }

    #[test]
    fn a_call_that_nobody_waits_for_is_not_begun() {
        let workers = Workers::start("test", 1).unwrap();
        let (open, gate) = mpsc::channel::<()>();
        let first = workers.submit(move |_| gate.recv().is_ok());
        let begun = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&begun);
        drop(workers.submit(move |_| seen.fetch_add(1, Ordering::SeqCst)));
        open.send(()).unwrap();
        assert!(block_on(first.get()).unwrap());
        assert!(block_on(workers.submit(|wanted| wanted()).get()).unwrap());
        assert_eq!(begun.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_call_that_panics_is_an_error_and_the_others_go_on() {
        let workers = Workers::start("test", 1).unwrap();
        let broken = workers.submit(|_| -> () { panic!("as wanted") });
        block_on(broken.get()).unwrap_err();
        assert_eq!(block_on(workers.submit(|_| 1).get()).unwrap(), 1);
    }
}
