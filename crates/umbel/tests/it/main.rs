//! The engine's rules on whole documents, without a store.

#![cfg(all(feature = "edge", feature = "sqlite"))]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod cases;
mod change;
#[cfg(all(feature = "html", feature = "pdf"))]
mod converted;
mod dedup;
mod duplicates;
#[cfg(all(feature = "html", feature = "pdf", feature = "office"))]
mod fuzz;
mod golden;
mod library;
mod marked;
mod packing;
mod schema;
mod support;
