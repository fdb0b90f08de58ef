//! Trees → for how many of their nodes a merge rule can fire at all.
//!
//! Invariant: everything is counted from the real tree, nothing from configured sizes.

use super::{MergeConfig, RatioBy, Rule};
use crate::tree::{Node, NodeKind, Tree};

/// The smallest number of matched children that fires a node with so many children: at least `min_siblings`, and a share of at
/// least `ratio`. It may be more than there are children: then the rule cannot fire.
pub fn need(children: usize, min_siblings: usize, ratio: f64) -> usize {
    let share = (0..=children).find(|&matched| matched as f64 / children as f64 >= ratio);
    share.unwrap_or(children + 1).max(min_siblings)
}

/// Whether the rule can fire at all for a node with so many children, in a list of `depth`.
pub fn satisfiable(children: usize, min_siblings: usize, ratio: f64, depth: usize) -> bool {
    need(children, min_siblings, ratio) <= children.min(depth)
}

/// Which share of a list of `depth` one parent must take before it fires: `need / depth`. Above 1 it cannot fire.
pub fn share_of_list(children: usize, min_siblings: usize, ratio: f64, depth: usize) -> f64 {
    need(children, min_siblings, ratio) as f64 / depth as f64
}

impl MergeConfig {
    /// The smallest number of matched children that fires this node. Where tokens are counted, that many of its largest ones;
    /// the budget rule is taken at its mildest, while nothing is used.
    pub fn need(&self, tree: &Tree, node: &Node) -> usize {
        let share = match self.rule {
            Rule::Ratio { ratio, by: RatioBy::Children } => {
                return need(node.children.len(), self.min_siblings, ratio);
            }
            Rule::Ratio { ratio, by: RatioBy::Tokens } => ratio,
            Rule::Budget { flat_base, .. } if tree.is_flat(node) => flat_base,
            Rule::Budget { base, .. } => base,
        };
        let mut tokens: Vec<f64> = node
            .children
            .iter()
            .filter_map(|&child| tree.node(child))
            .map(|child| f64::from(child.tokens))
            .collect();
        tokens.sort_by(|a, b| b.total_cmp(a));
        let wanted = share * f64::from(node.tokens);
        let mut sum = 0.0;
        let enough = tokens.iter().position(|tokens| {
            sum += tokens;
            sum >= wanted
        });
        enough.map_or(node.children.len() + 1, |at| at + 1).max(self.min_siblings)
    }

    /// Whether this node can fire in a list of `depth`, its size aside.
    pub fn is_satisfiable(&self, tree: &Tree, node: &Node, depth: usize) -> bool {
        self.need(tree, node) <= node.children.len().min(depth)
    }

    /// Whether this node can fire in a list of `depth`, where `budget_tokens` may be delivered.
    pub fn can_fire(&self, tree: &Tree, node: &Node, depth: usize, budget_tokens: usize) -> bool {
        let is_protected = node.parent.is_none() && !self.merge_root;
        let cap = self.max_merge_tokens.min(budget_tokens);
        self.enabled
            && !is_protected
            && node.tokens as usize <= cap
            && self.is_satisfiable(tree, node, depth)
    }
}

/// For how many nodes a rule can fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Satisfiability {
    /// Nodes with children.
    pub parents: usize,
    /// Those whose children are enough, in number and for the list.
    pub satisfiable: usize,
    /// Those of them that must take more than half of the list.
    pub greedy: usize,
    /// Those that are small enough as well, and so can fire.
    pub can_fire: usize,
}

impl Satisfiability {
    /// Counts the nodes of one more tree.
    pub fn add(&mut self, tree: &Tree, config: &MergeConfig, depth: usize, budget_tokens: usize) {
        for node in tree.nodes.iter().filter(|node| node.kind != NodeKind::Leaf) {
            self.parents += 1;
            if config.is_satisfiable(tree, node, depth) {
                self.satisfiable += 1;
                self.greedy += usize::from(2 * config.need(tree, node) > depth);
            }
            self.can_fire += usize::from(config.can_fire(tree, node, depth, budget_tokens));
        }
    }

    /// The share of the nodes whose children are enough, 0 to 1; `None` without nodes.
    pub fn satisfiable_share(&self) -> Option<f64> {
        self.share(self.satisfiable)
    }

    /// The share of the nodes that can fire, 0 to 1; `None` without nodes.
    pub fn can_fire_share(&self) -> Option<f64> {
        self.share(self.can_fire)
    }

    fn share(&self, of: usize) -> Option<f64> {
        (self.parents > 0).then(|| of as f64 / self.parents as f64)
    }
}
