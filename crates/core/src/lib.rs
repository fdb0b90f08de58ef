//! Spans, trees, leaves and hits: the shapes of hierarchical retrieval, as pure functions over values.
//!
//! Modules are declared in the order in which data flows; each uses only those above it.

pub mod check;
pub mod collapse;
pub mod document;
pub mod expand;
pub mod group;
pub mod hit;
pub mod id;
pub mod leaf;
pub mod measure;
pub mod merge;
pub mod offsets;
pub mod outline;
pub mod pack;
pub mod span;
pub mod trace;
pub mod tree;
