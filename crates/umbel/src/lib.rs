//! The engine: folders of documents go in, a question comes, and the spans worth reading come back.
//!
//! Modules are declared in the order in which data flows; each uses only those above it.

pub mod embed;
pub mod index;
pub mod catalog;

pub use umbel_core as core;
