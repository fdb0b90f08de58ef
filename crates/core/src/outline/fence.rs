//! Lines → which of them are fenced code.
//!
//! Invariant: a fence is closed by one of the same character, at least as long.

/// Follows the fences of a text, line by line.
#[derive(Debug, Default)]
pub(super) struct Fences {
    open: Option<(char, usize)>,
}

impl Fences {
    /// Whether the next line is a fence or stands between two.
    pub(super) fn take(&mut self, line: &str) -> bool {
        let line = line.trim();
        let behind = line.trim_start_matches(['`', '~']);
        let length = line.len() - behind.len();
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~') && length > 2);
        match (self.open, mark) {
            (Some((open, least)), Some(mark)) => {
                if open == mark && length >= least && behind.is_empty() {
                    self.open = None;
                }
                true
            }
            (Some(_), None) => true,
            (None, Some(mark)) if mark == '~' || !behind.contains('`') => {
                self.open = Some((mark, length));
                true
            }
            (None, _) => false,
        }
    }
}
