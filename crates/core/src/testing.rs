//! What the tests of several modules share.

use crate::offsets::TokenCounter;

/// Counts a token for each byte.
pub(crate) struct Bytes;

impl TokenCounter for Bytes {
    fn name(&self) -> &'static str {
        "bytes"
    }

    fn count(&self, text: &str) -> usize {
        text.len()
    }

    fn starts(&self, text: &str) -> Vec<u32> {
        (0..text.len() as u32).collect()
    }
}
