//! Ctrl-C → a request to stop at the next step; a second one ends the program at once.
//!
//! Invariant: without [`listen`] the signal does what it always does.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// The exit code of a program that was interrupted: 128 and the number of the signal.
pub(crate) const INTERRUPTED: u8 = 130;

/// From now on a signal is a request: what is finished is committed first.
pub(crate) fn listen() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
    })?;
    Ok(())
}

/// Whether nobody asked to stop.
pub(crate) fn go_on() -> ControlFlow<()> {
    if ASKED.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
