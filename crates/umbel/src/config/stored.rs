//! A configuration that was written down, and `key=value` pairs → the configuration with these changed.

use super::{Config, ConfigError, set};

impl Config {
    /// The configuration that [`Config::to_toml`] wrote, with settings changed, later ones winning.
    ///
    /// # Errors
    /// As [`Config::load`]: text that is no configuration, an unknown key, a value of another type or out of range.
    pub fn stored(text: &str, sets: &[String]) -> Result<Config, ConfigError> {
        let table = text.parse().map_err(|source: toml::de::Error| ConfigError::Value {
            key: "settings".to_owned(),
            message: source.message().to_owned(),
        })?;
        changed(table, sets)
    }
}

/// The configuration of a table with settings changed.
pub(super) fn changed(mut table: toml::Table, sets: &[String]) -> Result<Config, ConfigError> {
    for pair in sets {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| ConfigError::NoPair { got: pair.clone() })?;
        set(&mut table, key.trim(), value.trim())?;
    }
    let settings =
        serde_path_to_error::deserialize(toml::Value::Table(table)).map_err(|error| {
            ConfigError::Value {
                key: error.path().to_string(),
                message: error.inner().message().to_owned(),
            }
        })?;
    Config::check(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_reads_back_and_can_be_changed() {
        let config = Config::default();
        assert_eq!(Config::stored(&config.to_toml(), &[]).unwrap(), config);
        let changed = Config::stored(&config.to_toml(), &["search.budget=500".to_owned()]).unwrap();
        assert_eq!(changed.settings().search.budget, 500);
        for wrong in ["search.budget", "search.colour=1", "merge.ratio=2"] {
            assert!(Config::stored(&config.to_toml(), &[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
