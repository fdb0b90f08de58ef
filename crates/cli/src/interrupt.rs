//! Ctrl-C → a request to stop at the next step; a second one ends the program at once.
//!
//! Invariant: without [`listen`] the signal does what it always does.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

static ASKED: AtomicBool = AtomicBool::new(false);
/// Wakes who waits for a signal.
static WAKES: Notify = Notify::const_new();

/// The exit code of a program that was interrupted: 128 and the number of the signal.
pub(crate) const INTERRUPTED: u8 = 130;

/// From now on a signal is a request: what is finished is committed first.
pub(crate) fn listen() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        WAKES.notify_waiters();
    })?;
    Ok(())
}

/// Whether nobody asked to stop.
pub(crate) fn go_on() -> ControlFlow<()> {
    if ASKED.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// What some work gives; `None` as soon as somebody asks to stop, whatever the work waits for. Work that ends by itself at the
/// same moment is given.
pub(crate) async fn unless_asked<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = asked() => None,
    }
}

/// Ends when somebody asks to stop.
async fn asked() {
    // Made before the look, so that a signal in between wakes it.
    let woken = WAKES.notified();
    if go_on().is_continue() {
        woken.await;
    }
}
