//! The small JSON files of a model folder → how hidden states are pooled.
//!
//! Invariant: a setting that would change the vectors and is not implemented is refused, never ignored.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::pooling::Pooling;
use crate::local::LocalError;
use crate::local::settings::read_json;

/// The pooling that the folder asks for; by default the mean.
pub(super) fn read_pooling(folder: &Path) -> Result<Pooling, LocalError> {
    let modules: Vec<Module> = read_json(&folder.join("modules.json"))?.unwrap_or_default();
    let is_known = |kind: &str| ["Transformer", "Pooling", "Normalize"].contains(&kind);
    if let Some(module) = modules.iter().find(|module| !is_known(module.kind())) {
        return Err(LocalError::Module { kind: module.kind().to_owned() });
    }
    let pooling: Option<PoolingConfig> = read_json(&folder.join("1_Pooling/config.json"))?;
    pooling.map_or(Ok(Pooling::Mean), |config| config.mode())
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
