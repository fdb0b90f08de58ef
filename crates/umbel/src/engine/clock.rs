//! The steps of a search → how long each took.
//!
//! Invariant: a step that is taken twice has one entry, in the place of its first.

use std::time::{Duration, Instant};

/// Measures steps.
pub(super) struct Clock {
    at: Instant,
    /// The steps so far.
    pub(super) laps: Vec<(&'static str, Duration)>,
}

impl Clock {
    /// Starts the first step.
    pub(super) fn start() -> Clock {
        Clock { at: Instant::now(), laps: Vec::new() }
    }

    /// Ends a step and starts the next.
    pub(super) fn lap(&mut self, name: &'static str) {
        let took = self.at.elapsed();
        match self.laps.iter_mut().find(|(other, _)| *other == name) {
            Some((_, sum)) => *sum += took,
            None => self.laps.push((name, took)),
        }
        self.at = Instant::now();
    }
}
