//! Flags, environment and file → one checked configuration.
//!
//! Invariant: a [`Config`] has passed every check; the stages take their own part of it. Order: flag, environment, file, default.

mod models;
mod stored;

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
    /// When siblings are merged.
    pub merge: MergeSettings,
    /// What scores leaves again.
    pub rerank: RerankSettings,
    /// What answers questions from what was found.
    pub generate: GenerateSettings,
    /// What is kept of searches.
    pub log: LogSettings,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// Whether searches are kept in the store, with their traces.
    pub enabled: bool,
    /// Whether the questions are kept as they were asked.
    pub queries: QueryText,
    /// How many days are kept, today among them.
    pub keep_days: u32,
}

/// How questions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryText {
    /// As they were asked.
    Text,
    /// As a hash: the same question can be counted, and not read.
    Hash,
}

impl Default for LogSettings {
    fn default() -> LogSettings {
        LogSettings { enabled: true, queries: QueryText::Text, keep_days: 90 }
    }
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
    /// Leaves that each leg is read to.
    pub fusion_depth: usize,
    /// Leaves that are kept of the fused list.
    pub k_prime: usize,
    /// Distinct clusters that merging sees.
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
            lexical_weight: 0.5,
            rrf_k: 60.0,
            fusion_depth: 100,
            k_prime: 60,
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
    /// `rule = "budget"`: the share of a node's tokens that must have been retrieved while nothing is used; twice that when the
    /// budget is full.
    pub base: f64,
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
        let unit = 0.0..=1.0;
        range(
            unit.contains(&search.lexical_weight),
            "search.lexical_weight",
            search.lexical_weight.to_string(),
            "0 to 1",
        )?;
        range(
            (0.0..=1.0).contains(&merge.ratio),
            "merge.ratio",
            merge.ratio.to_string(),
            "0 to 1",
        )?;
        let keep_days = settings.log.keep_days;
        range(
            (1..=36_500).contains(&keep_days),
            "log.keep_days",
            keep_days.to_string(),
            "1 to 36500",
        )?;
        range(search.budget > 0, "search.budget", search.budget.to_string(), "at least 1")?;
        range((0.0..=1.0).contains(&merge.base), "merge.base", merge.base.to_string(), "0 to 1")?;
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
        settings.embed.check()?;
        settings.rerank.check()?;
        settings.generate.check()?;
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
                RuleKind::Budget => Rule::Budget { base: settings.base },
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
    let sections =
        ["read", "leaf", "embed", "lexical", "search", "merge", "rerank", "generate", "log"];
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
    #[error("`{key}` is {got}, want {wanted}")]
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
        check_error("search.expand=siblings", "`siblings` is no expansion, want none, parent,");
        check_error("search.expand=tokens:0", "`tokens:0` is no expansion");
        check_error(
            "search.reserve=2000",
            "`search.reserve` is 2000, want less than `search.budget`",
        );
        check_error("budget", "`budget` is not a `key=value`");
        check_error("budget=1", "`budget` names no setting");
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
