//! The small JSON files of a model folder → what a text may have, and how its states are pooled.
//!
//! Invariant: a setting that would change the vectors and is not implemented is refused, never ignored.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::LocalError;

/// What the small files of a model folder say.
pub(super) struct Settings {
    /// The tokens that one text may have, special tokens included.
    pub(super) max_tokens: usize,
    pub(super) pooling: Pooling,
}

impl Settings {
    pub(super) fn read(folder: &Path) -> Result<Self, LocalError> {
        let modules: Vec<Module> = read_json(&folder.join("modules.json"))?.unwrap_or_default();
        let is_known = |kind: &str| ["Transformer", "Pooling", "Normalize"].contains(&kind);
        if let Some(module) = modules.iter().find(|module| !is_known(module.kind())) {
            return Err(LocalError::Module { kind: module.kind().to_owned() });
        }
        let sentence: Option<SentenceConfig> =
            read_json(&folder.join("sentence_bert_config.json"))?;
        let config: Option<Config> = read_json(&folder.join("config.json"))?;
        let most = config.and_then(|config| config.max_position_embeddings);
        let wanted = sentence.and_then(|sentence| sentence.max_seq_length);
        let max_tokens = match (wanted, most) {
            (Some(wanted), Some(most)) => wanted.min(most),
            (Some(limit), None) | (None, Some(limit)) => limit,
            (None, None) => return Err(LocalError::NoLimit),
        };
        let pooling: Option<PoolingConfig> = read_json(&folder.join("1_Pooling/config.json"))?;
        Ok(Self { max_tokens, pooling: pooling.map_or(Ok(Pooling::Mean), |config| config.mode())? })
    }
}

/// How the hidden states of a text's tokens become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// Their mean, padding left out.
    Mean,
    /// The first one.
    Cls,
}

#[derive(Deserialize)]
struct Config {
    max_position_embeddings: Option<usize>,
}

#[derive(Deserialize)]
struct SentenceConfig {
    max_seq_length: Option<usize>,
}

/// A line of `modules.json`.
#[derive(Deserialize)]
struct Module {
    r#type: String,
}

impl Module {
    /// The last part of its path, as `Pooling`.
    fn kind(&self) -> &str {
        self.r#type.rsplit('.').next().unwrap_or_default()
    }
}

/// `1_Pooling/config.json`: one flag per mode, and others.
#[derive(Deserialize)]
struct PoolingConfig {
    #[serde(flatten)]
    settings: BTreeMap<String, serde_json::Value>,
}

impl PoolingConfig {
    fn mode(&self) -> Result<Pooling, LocalError> {
        let is_on = |(key, value): &(&String, &serde_json::Value)| {
            key.starts_with("pooling_mode_") && **value == true
        };
        let modes: Vec<&str> =
            self.settings.iter().filter(is_on).map(|(key, _)| key.as_str()).collect();
        match modes[..] {
            ["pooling_mode_mean_tokens"] => Ok(Pooling::Mean),
            ["pooling_mode_cls_token"] => Ok(Pooling::Cls),
            _ => Err(LocalError::Pooling { modes: modes.join(", ") }),
        }
    }
}

/// A JSON file, or none where it does not exist.
fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, LocalError> {
    match fs_err::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| LocalError::Json { path: path.to_owned(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
