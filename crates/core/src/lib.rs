//! Spans, trees, leaves and hits: the shapes of hierarchical retrieval, as pure functions over values.
//!
//! Modules are declared in the order in which data flows; each uses only those above it.

pub mod span;
pub mod id;
pub mod offsets;
#[cfg(test)]
mod testing;
pub mod tree;
pub mod outline;
pub mod measure;
pub mod group;
pub mod leaf;
pub mod document;
pub mod check;
pub mod hit;
pub mod support;
pub mod collapse;
pub mod merge;
pub mod expand;
pub mod page;
pub mod pack;
pub mod compress;
pub mod trace;
