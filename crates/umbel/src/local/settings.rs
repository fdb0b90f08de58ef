//! The small JSON files of a model folder → the tokens that one text may have.
//!
//! Invariant: the limit is never above the positions that the model knows.

use std::io;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::LocalError;

/// The tokens that one text, or one pair of texts, may have, special tokens included: `max_seq_length` of
/// `sentence_bert_config.json`, and no more than the positions of `config.json`.
pub(crate) fn max_tokens(folder: &Path) -> Result<usize, LocalError> {
    let sentence: Option<SentenceConfig> = read_json(&folder.join("sentence_bert_config.json"))?;
    let config: Option<Config> = read_json(&folder.join("config.json"))?;
    let most = config.and_then(|config| config.positions());
    let wanted = sentence.and_then(|sentence| sentence.max_seq_length);
    match (wanted, most) {
        (Some(wanted), Some(most)) => Ok(wanted.min(most)),
        (Some(limit), None) | (None, Some(limit)) => Ok(limit),
        (None, None) => Err(LocalError::NoLimit),
    }
}

/// A JSON file, or none where it does not exist.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, LocalError> {
    match fs_err::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| LocalError::Json { path: path.to_owned(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[derive(Deserialize)]
struct Config {
    model_type: Option<String>,
    max_position_embeddings: Option<usize>,
    pad_token_id: Option<usize>,
}

impl Config {
    /// The positions that a text can take.
    ///
    /// Source: models of RoBERTa's kind count positions from `pad_token_id + 1`, in Hugging Face transformers
    /// (`create_position_ids_from_input_ids`), so a table of 514 serves 512 tokens.
    fn positions(&self) -> Option<usize> {
        let is_roberta = self.model_type.as_deref().is_some_and(|kind| kind.contains("roberta"));
        let unused = if is_roberta { self.pad_token_id.unwrap_or(1) + 1 } else { 0 };
        self.max_position_embeddings.map(|positions| positions.saturating_sub(unused))
    }
}

#[derive(Deserialize)]
struct SentenceConfig {
    max_seq_length: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(config: &str, sentence: Option<&str>, expected: usize) {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("config.json"), config).unwrap();
        if let Some(sentence) = sentence {
            fs_err::write(folder.path().join("sentence_bert_config.json"), sentence).unwrap();
        }
        assert_eq!(max_tokens(folder.path()).unwrap(), expected);
    }

    #[test]
    fn the_smaller_limit_counts() {
        let config = r#"{"model_type": "bert", "max_position_embeddings": 512}"#;
        check(config, None, 512);
        check(config, Some(r#"{"max_seq_length": 256}"#), 256);
        check(config, Some(r#"{"max_seq_length": 8192}"#), 512);
        check("{}", Some(r#"{"max_seq_length": 256}"#), 256);
    }

    #[test]
    fn positions_that_padding_takes_are_no_tokens() {
        check(r#"{"model_type": "xlm-roberta", "max_position_embeddings": 514}"#, None, 512);
        let config =
            r#"{"model_type": "roberta", "max_position_embeddings": 66, "pad_token_id": 3}"#;
        check(config, None, 62);
    }
}
