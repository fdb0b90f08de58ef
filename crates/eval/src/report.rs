//! Runs of the same judgments, beside the texts → what a reader looks at: lengths, cost against recall, and queries one by one.
//!
//! Invariant: the same runs give the same values; texts stand as they do in their documents, and what is left out of them is counted.

mod frontier;
mod lengths;
mod queries;

pub use frontier::{Point, Series, frontier};
pub use lengths::{Class, lengths};
pub use queries::{Change, Merge, Passage, Piece, Seen, Told, told};
