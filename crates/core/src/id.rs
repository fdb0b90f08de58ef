//! Names of documents, leaves and clusters → values that sort, print and parse.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A document of a store. Never used again for another document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DocId(pub u64);

/// A leaf: 16 bytes, printed as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeafId(pub [u8; 16]);

/// A cluster of duplicates: 16 bytes, printed as 32 hexadecimal digits. An unclustered leaf is its own cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClusterId(pub [u8; 16]);

impl LeafId {
    /// The id of the leaf with this text in this document, `occurrence` leaves with the same text coming before it.
    ///
    /// It does not depend on where in the document the leaf stands, so an edit elsewhere leaves it alone.
    pub fn of(source: &str, path: &str, text: &str, occurrence: u32) -> LeafId {
        let mut hasher = blake3::Hasher::new();
        for part in [source, path, text] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.update(&occurrence.to_le_bytes());
        let mut id = [0; 16];
        hasher.finalize_xof().fill(&mut id);
        LeafId(id)
    }
}

impl From<LeafId> for ClusterId {
    fn from(leaf: LeafId) -> ClusterId {
        ClusterId(leaf.0)
    }
}

/// A text that is not 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not 32 hexadecimal digits")]
pub struct IdError(String);

fn parse_hex(text: &str) -> Result<[u8; 16], IdError> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let bytes: Option<Vec<u8>> = digits.filter(|d| d.len() == 32).map(|d| {
        d.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
    });
    bytes.and_then(|b| b.try_into().ok()).ok_or_else(|| IdError(text.to_owned()))
}

macro_rules! hex_id {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<$name, IdError> {
                parse_hex(text).map($name)
            }
        }
    };
}
hex_id!(LeafId);
hex_id!(ClusterId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_parses_back() {
        let id = LeafId::of("docs", "a.md", "text", 0);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("xyz".parse::<LeafId>().is_err());
        assert!("é".repeat(16).parse::<LeafId>().is_err());
    }

    #[test]
    fn every_part_of_a_leaf_changes_its_id() {
        let id = LeafId::of("a", "bc", "d", 0);
        for other in [
            LeafId::of("ab", "c", "d", 0),
            LeafId::of("a", "bc", "d", 1),
            LeafId::of("a", "bc", "e", 0),
        ] {
            assert_ne!(id, other);
        }
    }
}
