//! Runs of leaves that are long together → parts of several leaves: rule 7.
//!
//! Invariant: a part holds leaves or smaller parts of one section, and never a single one.

use super::draft::{Draft, LeafDraft};
use super::fit::Builder;
use crate::group::balance;
use crate::tree::NodeKind;

impl Builder<'_> {
    /// Groups runs of leaves that are long together into parts, by the largest level first.
    pub(super) fn parts(&self, drafts: Vec<Draft>, levels: &[usize]) -> Vec<Draft> {
        let Some((&level, smaller)) = levels.split_first() else { return drafts };
        let mut grouped = Vec::with_capacity(drafts.len());
        let mut run: Vec<Draft> = Vec::new();
        for draft in drafts {
            if let Draft::Leaf(_) = draft {
                run.push(draft);
            } else {
                grouped.extend(self.parts_of_run(std::mem::take(&mut run), level, smaller));
                grouped.push(draft);
            }
        }
        grouped.extend(self.parts_of_run(run, level, smaller));
        grouped
    }

    fn parts_of_run(&self, run: Vec<Draft>, level: usize, smaller: &[usize]) -> Vec<Draft> {
        let runs = self.ruler.runs(run.iter().filter_map(Draft::hull));
        if run.len() < 2 || runs.size(0, run.len()) <= level {
            return self.parts(run, smaller);
        }
        let groups = balance(run.len(), level, |i, j| runs.size(i, j));
        let mut leaves = run.into_iter();
        let mut drafts = Vec::new();
        for group in groups {
            let members: Vec<Draft> = leaves.by_ref().take(group.len()).collect();
            let path = match members.first() {
                Some(Draft::Leaf(leaf)) => common_path(leaf, &members),
                _ => Vec::new(),
            };
            if members.len() < 2 {
                drafts.extend(members);
            } else {
                drafts.push(Draft::Inner {
                    kind: NodeKind::Part,
                    path,
                    children: self.parts(members, smaller),
                });
            }
        }
        drafts
    }
}

/// The headings that all of these leaves are under.
fn common_path(first: &LeafDraft, members: &[Draft]) -> Vec<u32> {
    let mut common = first.path.clone();
    for member in members {
        if let Draft::Leaf(leaf) = member {
            let same = common.iter().zip(&leaf.path).take_while(|(a, b)| a == b).count();
            common.truncate(same);
        }
    }
    common
}
