//! The command as a person would type it.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod cli;

mod answer;
mod ask;
mod bad_input;
mod bench;
mod change;
mod corpora;
mod crash;
mod demo;
mod duplicates;
mod dupes;
mod eval;
mod formats;
mod inspect;
mod log;
mod metadata;
mod replay;
mod report;
mod search;
mod server;
mod store;
