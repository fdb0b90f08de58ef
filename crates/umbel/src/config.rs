//! Flags, environment and file → one checked configuration.
//!
//! Invariant: a [`Config`] has passed every check; the stages take their own part of it. Order: flag, environment, file, default.

mod collapse;
mod log;
mod models;
mod stored;

pub use collapse::{CollapseSettings, PolicyKind};
pub use log::{LogSettings, QueryText};
pub use models::{
    EmbedBackend, EmbedSettings, GenerateSettings, RerankBackend, RerankSettings, RerankStage,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use umbel_core::expand::Expansion;
use umbel_core::hit::Fusion;
use umbel_core::leaf::{LeafConfig, LeafConfigError};
use umbel_core::merge::{MergeConfig, RatioBy, Rule};
use umbel_core::pack::{Order, PackConfig};
use umbel_core::support::SupportConfig;
use umbel_core::trace::AssembleConfig;

/// What a user writes: every key may be left out, an unknown one is refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Which files are read, and how far a converter may go.
    pub read: ReadSettings,
    /// How leaves are cut.
    pub leaf: LeafSettings,
    /// What turns text into vectors.
    pub embed: EmbedSettings,
    /// The leg that searches by words.
    pub lexical: LexicalSettings,
    /// How leaves are found and delivered.
    pub search: SearchSettings,
    /// Which copy of what is said several times is delivered.
    pub collapse: CollapseSettings,
    /// When siblings are merged.
    pub merge: MergeSettings,
    /// What scores leaves again.
    pub rerank: RerankSettings,
    /// What answers questions from what was found.
    pub generate: GenerateSettings,
    /// What is kept of searches.
    pub log: LogSettings,
}

/// `[read]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadSettings {
    /// Whether `.gitignore` and `.umbelignore` say which files are not read.
    pub respect_ignore: bool,
    /// Whether files and folders whose name begins with a dot are read.
    pub hidden: bool,
    /// Whether a file that says no date itself has that of its last commit.
    pub git_dates: bool,
    /// Seconds that the conversion of one file may take.
    pub timeout_seconds: u64,
    /// Memory that it may use, in MiB.
    pub memory_mb: u64,
    /// Text that it may give, in MiB.
    pub output_mb: u64,
}

impl Default for ReadSettings {
    fn default() -> ReadSettings {
        ReadSettings {
            respect_ignore: true,
            hidden: false,
            git_dates: true,
            timeout_seconds: 60,
            memory_mb: 2048,
            output_mb: 256,
        }
    }
}

/// `[leaf]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LeafSettings {
    /// Size of a leaf at the most.
    pub target: usize,
    /// Repeated behind an artificial cut.
    pub overlap: usize,
    /// Sizes of the parts of long sections, largest first.
    pub levels: Vec<usize>,
    /// Documents up to this size stay one leaf; 0 for none.
    pub keep_whole_tokens: usize,
    /// What the sizes above are counted in: `tokens` or `characters`.
    pub unit: Unit,
    /// What budget tokens are, here and in every budget: `o200k_base`, `cl100k_base`, or the path of a `tokenizer.json`.
    pub tokenizer: String,
}

/// What leaf sizes are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Budget tokens.
    Tokens,
    /// Unicode scalar values.
    Characters,
}

impl Default for LeafSettings {
    fn default() -> LeafSettings {
        let LeafConfig { target, overlap, levels, keep_whole } = LeafConfig::default();
        LeafSettings {
            target,
            overlap,
            levels,
            keep_whole_tokens: keep_whole,
            unit: Unit::Tokens,
            tokenizer: "o200k_base".to_owned(),
        }
    }
}

/// `[lexical]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LexicalSettings {
    /// Stop words and stemming.
    pub language: String,
}

impl Default for LexicalSettings {
    fn default() -> LexicalSettings {
        LexicalSettings { language: "english".to_owned() }
    }
}

/// `[search]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchSettings {
    /// Tokens of all passages together.
    pub budget: usize,
    /// How the two legs become one list.
    pub fusion: FusionKind,
    /// What the lexical leg counts, 0 to 1; the dense leg counts the rest.
    pub lexical_weight: f32,
    /// What reciprocal ranks are damped by: `1 / (rrf_k + rank)`.
    pub rrf_k: f32,
    /// What share of the best other score in its section a leaf is raised by, 0 to 1.
    pub section_support: f32,
    /// What share of the best other score in its document a leaf is raised by, 0 to 1.
    pub document_support: f32,
    /// Leaves that each leg is read to.
    pub fusion_depth: usize,
    /// Leaves that are read of the fused list before duplicates are collapsed; above `fusion_depth` it raises that. Until a log
    /// tells better (`umbel log overfetch`): 100 for 60 distinct clusters, which both legs are read to in any case.
    pub k_prime: usize,
    /// Distinct clusters that are delivered from: what is left when duplicates are collapsed, and what merging sees.
    pub depth: usize,
    /// What leaves that were not merged are delivered as: `none`, `parent`, `siblings:N`, `sentences:N`, `tokens:N` or `auto`.
    #[serde(with = "as_text")]
    pub expand: Expansion,
    /// Tokens that an expanded parent may have before it is cropped.
    pub parent_cap: usize,
    /// Tokens of the budget that are kept for what else the prompt holds.
    pub reserve: usize,
    /// In which order passages are delivered.
    pub order: OrderKind,
    /// What share of each passage's tokens is kept, the sentences nearest to the question; 1 keeps all.
    pub keep: f64,
}

/// In which order passages are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderKind {
    /// By the rank of their best evidence.
    Evidence,
    /// As they stand in their documents.
    Document,
}

/// A setting that is written as its text.
mod as_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
    use std::fmt::Display;
    use std::str::FromStr;

    pub(super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// How ranked lists are fused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FusionKind {
    /// Weighted mean of scaled scores.
    Convex,
    /// Weighted reciprocal rank.
    Rrf,
}

impl Default for SearchSettings {
    fn default() -> SearchSettings {
        SearchSettings {
            budget: 2000,
            fusion: FusionKind::Convex,
            lexical_weight: 0.55,
            rrf_k: 60.0,
            section_support: 0.3,
            document_support: 0.2,
            fusion_depth: 100,
            k_prime: 100,
            depth: 60,
            expand: Expansion::None,
            parent_cap: 800,
            reserve: 0,
            order: OrderKind::Evidence,
            keep: 1.0,
        }
    }
}

/// `[merge]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MergeSettings {
    /// Whether anything is merged at all.
    pub enabled: bool,
    /// What share of a node must have been retrieved: a fixed one, or one that grows as the budget fills.
    pub rule: RuleKind,
    /// Children that must have been retrieved, at the least.
    pub min_siblings: usize,
    /// `rule = "ratio"`: the share of a node that must have been retrieved, at the least: 0 to 1. With 0 the count decides alone.
    pub ratio: f64,
    /// `rule = "ratio"`: what the share is counted in.
    pub ratio_by: RatioKind,
    /// `rule = "budget"`: the share of a section's tokens that must have been retrieved while nothing is used; twice that when
    /// the budget is full.
    pub base: f64,
    /// `rule = "budget"`: the same for whole documents, and for parts of a text without sections.
    pub flat_base: f64,
    /// Larger nodes are not merged.
    pub max_merge_tokens: usize,
    /// Whether a whole document may be merged.
    pub merge_root: bool,
}

/// Which rule merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleKind {
    /// A fixed share.
    Ratio,
    /// A share that grows as the budget fills, for nodes that still fit.
    Budget,
}

/// What a share is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RatioKind {
    /// Children.
    Children,
    /// Budget tokens.
    Tokens,
}

impl Default for MergeSettings {
    fn default() -> MergeSettings {
        let MergeConfig { enabled, rule: _, min_siblings, max_merge_tokens, merge_root } =
            MergeConfig::default();
        MergeSettings {
            enabled,
            rule: RuleKind::Budget,
            min_siblings,
            ratio: 0.5,
            ratio_by: RatioKind::Children,
            base: 0.25,
            flat_base: 0.5,
            max_merge_tokens,
            merge_root,
        }
    }
}

/// Settings that agree with each other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    settings: Settings,
}

impl Config {
    /// Reads the file (if any), the environment's `UMBEL_SECTION_KEY` and `key=value` pairs, later ones winning.
    ///
    /// # Errors
    /// A file that does not parse, an unknown key, a value of another type or out of range: each names the key.
    pub fn load(
        file: Option<&Path>,
        environment: &[(String, String)],
        sets: &[String],
    ) -> Result<Config, ConfigError> {
        let mut table = toml::Table::new();
        if let Some(path) = file {
            let text = fs_err::read_to_string(path)
                .map_err(|source| ConfigError::File { path: path.to_owned(), source })?;
            table = text.parse().map_err(|source: toml::de::Error| ConfigError::Syntax {
                path: path.to_owned(),
                message: source.message().to_owned(),
            })?;
        }
        for (name, value) in environment {
            if let Some(key) = key_of_variable(name) {
                set(&mut table, &key, value)?;
            }
        }
        stored::changed(table, sets)
    }

    /// Checks that settings agree with each other.
    ///
    /// # Errors
    /// Names the key that is out of range.
    pub fn check(settings: Settings) -> Result<Config, ConfigError> {
        let (read, search, merge) = (&settings.read, &settings.search, &settings.merge);
        let limits = [
            ("read.timeout_seconds", read.timeout_seconds, 1..=86_400, "1 to 86400"),
            ("read.memory_mb", read.memory_mb, 64..=1 << 20, "64 to 1048576"),
            ("read.output_mb", read.output_mb, 1..=1 << 10, "1 to 1024"),
        ];
        for (key, got, wanted, words) in limits {
            range(wanted.contains(&got), key, got.to_string(), words)?;
        }
        for (key, share) in [
            ("search.lexical_weight", search.lexical_weight),
            ("search.section_support", search.section_support),
            ("search.document_support", search.document_support),
        ] {
            range((0.0..=1.0).contains(&share), key, share.to_string(), "0 to 1")?;
        }
        for (key, share) in [
            ("merge.ratio", merge.ratio),
            ("merge.base", merge.base),
            ("merge.flat_base", merge.flat_base),
        ] {
            range((0.0..=1.0).contains(&share), key, share.to_string(), "0 to 1")?;
        }
        range(search.budget > 0, "search.budget", search.budget.to_string(), "at least 1")?;
        range(
            search.reserve < search.budget,
            "search.reserve",
            search.reserve.to_string(),
            "less than `search.budget`",
        )?;
        range(search.rrf_k >= 0.0, "search.rrf_k", search.rrf_k.to_string(), "at least 0")?;
        range(search.depth > 0, "search.depth", search.depth.to_string(), "at least 1")?;
        range(
            search.fusion_depth > 0,
            "search.fusion_depth",
            search.fusion_depth.to_string(),
            "at least 1",
        )?;
        range(
            search.k_prime >= search.depth,
            "search.k_prime",
            search.k_prime.to_string(),
            "at least `search.depth`",
        )?;
        range(
            search.parent_cap > 0,
            "search.parent_cap",
            search.parent_cap.to_string(),
            "at least 1",
        )?;
        range(
            merge.min_siblings > 0,
            "merge.min_siblings",
            merge.min_siblings.to_string(),
            "at least 1",
        )?;
        range(
            (0.0..=1.0).contains(&search.keep),
            "search.keep",
            search.keep.to_string(),
            "0 to 1",
        )?;
        settings.collapse.check()?;
        settings.embed.check()?;
        settings.rerank.check()?;
        settings.generate.check()?;
        settings.log.check()?;
        let config = Config { settings };
        config.leaf().check()?;
        Ok(config)
    }

    /// The settings, all keys filled in.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How leaves are cut.
    pub fn leaf(&self) -> LeafConfig {
        let LeafSettings { target, overlap, levels, keep_whole_tokens, .. } =
            self.settings.leaf.clone();
        LeafConfig { target, overlap, levels, keep_whole: keep_whole_tokens }
    }

    /// When siblings are merged.
    pub fn merge(&self) -> MergeConfig {
        let settings = &self.settings.merge;
        let by = match settings.ratio_by {
            RatioKind::Children => RatioBy::Children,
            RatioKind::Tokens => RatioBy::Tokens,
        };
        MergeConfig {
            enabled: settings.enabled,
            rule: match settings.rule {
                RuleKind::Ratio => Rule::Ratio { ratio: settings.ratio, by },
                RuleKind::Budget => {
                    Rule::Budget { base: settings.base, flat_base: settings.flat_base }
                }
            },
            min_siblings: settings.min_siblings,
            max_merge_tokens: settings.max_merge_tokens,
            merge_root: settings.merge_root,
        }
    }

    /// How ranked lists are fused.
    pub fn fusion(&self) -> Fusion {
        match self.settings.search.fusion {
            FusionKind::Convex => Fusion::Convex,
            FusionKind::Rrf => Fusion::Reciprocal { k: self.settings.search.rrf_k },
        }
    }

    /// How much leaves of a section or document raise each other.
    pub fn support(&self) -> SupportConfig {
        let search = &self.settings.search;
        SupportConfig { section: search.section_support, document: search.document_support }
    }

    /// How passages are packed, `limit` of them at the most.
    pub fn pack(&self, limit: Option<usize>) -> PackConfig {
        let search = &self.settings.search;
        PackConfig {
            budget_tokens: search.budget,
            reserve_tokens: search.reserve,
            limit,
            order: match search.order {
                OrderKind::Evidence => Order::Evidence,
                OrderKind::Document => Order::Document,
            },
        }
    }

    /// How hits become a context of `limit` passages at the most.
    pub fn assemble(&self, limit: Option<usize>) -> AssembleConfig {
        let search = &self.settings.search;
        AssembleConfig {
            depth: search.depth,
            merge: self.merge(),
            expansion: search.expand,
            parent_cap_tokens: search.parent_cap,
            pack: self.pack(limit),
        }
    }

    /// What a search depends on, as 16 hexadecimal digits.
    pub fn hash(&self) -> String {
        let text = self.to_toml();
        blake3::hash(text.as_bytes()).to_hex().chars().take(16).collect()
    }

    /// The whole configuration as a file.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.settings).expect("settings are tables of plain values")
    }
}

fn range(
    ok: bool,
    key: &'static str,
    got: String,
    wanted: &'static str,
) -> Result<(), ConfigError> {
    if ok { Ok(()) } else { Err(ConfigError::Range { key, got, wanted }) }
}

/// `UMBEL_SEARCH_PARENT_CAP` → `search.parent_cap`; `None` for variables that are not settings.
fn key_of_variable(name: &str) -> Option<String> {
    let (section, key) = name.strip_prefix("UMBEL_")?.split_once('_')?;
    let section = section.to_ascii_lowercase();
    let sections = [
        "read", "leaf", "embed", "lexical", "search", "collapse", "merge", "rerank", "generate",
        "log",
    ];
    sections.contains(&section.as_str()).then(|| format!("{section}.{}", key.to_ascii_lowercase()))
}

/// Sets `section.key` to a value written as in TOML; what is no TOML value is a text.
fn set(table: &mut toml::Table, key: &str, value: &str) -> Result<(), ConfigError> {
    let (section, name) =
        key.split_once('.').ok_or_else(|| ConfigError::NoSection { key: key.to_owned() })?;
    let parsed =
        format!("value = {value}").parse::<toml::Table>().ok().and_then(|mut t| t.remove("value"));
    let value = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let section = table.entry(section).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    match section {
        toml::Value::Table(section) => section.insert(name.to_owned(), value),
        _ => return Err(ConfigError::NoSection { key: key.to_owned() }),
    };
    Ok(())
}

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration `{path}` cannot be read")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is no TOML.
    #[error("the configuration `{path}` does not parse: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What and where.
        message: String,
    },
    /// An unknown key, or a value of another type.
    #[error("`{key}` does not fit: {message}")]
    Value {
        /// The key, or the section that holds it.
        key: String,
        /// What is wrong with it.
        message: String,
    },
    /// `--set` without an equals sign.
    #[error("`{got}` is not a `key=value`")]
    NoPair {
        /// What came.
        got: String,
    },
    /// A key without its section.
    #[error("`{key}` names no setting")]
    NoSection {
        /// The key.
        key: String,
    },
    /// A value out of its range.
    #[error("`{key}` is {}, want {wanted}", if got.is_empty() { "empty" } else { got })]
    Range {
        /// The key.
        key: &'static str,
        /// The value.
        got: String,
        /// The range.
        wanted: &'static str,
    },
    /// Leaf sizes that clash.
    #[error(transparent)]
    Leaf(#[from] LeafConfigError),
}

impl ConfigError {
    /// What to type.
    pub fn hint(&self) -> &'static str {
        match self {
            ConfigError::NoPair { .. } | ConfigError::NoSection { .. } => {
                "write `--set search.budget=4000`"
            }
            _ => "`umbel config show` prints every setting with its value",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(sets: &[&str]) -> Result<Config, ConfigError> {
        Config::load(None, &[], &sets.iter().map(|&s| s.to_owned()).collect::<Vec<_>>())
    }

    fn check_error(set: &str, words: &str) {
        let message = load(&[set]).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }

    #[test]
    fn later_sources_win() {
        let environment = [
            ("UMBEL_SEARCH_BUDGET".to_owned(), "7".to_owned()),
            ("UMBEL_CACHE".to_owned(), "x".to_owned()),
        ];
        let config = Config::load(None, &environment, &["search.depth=5".to_owned()]).unwrap();
        assert_eq!((config.settings().search.budget, config.settings().search.depth), (7, 5));
        let config = Config::load(None, &environment, &["search.budget=9".to_owned()]).unwrap();
        assert_eq!(config.settings().search.budget, 9);
    }

    #[test]
    fn values_are_written_as_in_the_file() {
        let config = load(&[
            "leaf.levels=[1024, 256]",
            "search.expand=parent",
            "merge.enabled=false",
            "embed.model=a/b",
        ])
        .unwrap();
        assert_eq!(config.leaf().levels, [1024, 256]);
        assert_eq!(
            (config.settings().search.expand, config.merge().enabled),
            (Expansion::Parent, false)
        );
        assert_eq!(config.settings().embed.model, "a/b");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        check_error("search.budgte=1", "budgte");
        check_error("serch.budget=1", "serch");
        check_error("search.budget=many", "budget");
        check_error("search.budget=0", "`search.budget` is 0, want at least 1");
        check_error("merge.ratio=1.5", "`merge.ratio` is 1.5, want 0 to 1");
        check_error("rerank.backend=tei", "`rerank.url` is empty, want an address");
        check_error("search.expand=siblings", "`siblings` is no expansion, want none, parent,");
        check_error("search.expand=tokens:0", "`tokens:0` is no expansion");
        check_error(
            "search.reserve=2000",
            "`search.reserve` is 2000, want less than `search.budget`",
        );
        check_error("budget", "`budget` is not a `key=value`");
        check_error("budget=1", "`budget` names no setting");
        check_error("collapse.policy=best", "`collapse.policy` does not fit");
        check_error("collapse.retry_factor=1", "`collapse.retry_factor` is 1, want 0, or 2 to 100");
        check_error("search.k_prime=59", "`search.k_prime` is 59, want at least `search.depth`");
    }

    #[test]
    fn a_connector_has_the_rank_of_the_table_or_none() {
        let config = load(&["collapse.authority={zendesk = 3, wiki = -1}"]).unwrap();
        let authority = |connector| config.settings().collapse.authority_of(connector);
        assert_eq!(
            [Some("zendesk"), Some("wiki"), Some("Wiki"), None].map(authority),
            [3, -1, 0, 0]
        );
    }

    #[test]
    fn c17_an_overlap_above_the_leaf_size_names_both_numbers() {
        check_error(
            "leaf.overlap=200",
            "`leaf.overlap` is 200, want less than `leaf.target`, which is 200",
        );
    }

    #[test]
    fn a_configuration_reads_what_it_writes() {
        let text = Config::default().to_toml();
        let settings: Settings = toml::from_str(&text).unwrap();
        assert_eq!(settings, Settings::default());
    }
}
