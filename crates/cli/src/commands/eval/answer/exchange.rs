//! What is asked of a model → what it says, asked once: answers are kept by what was asked.
//!
//! Invariant: a line of the cache is a whole answer; what a crash cut short is skipped.

use crate::interrupt;
use crate::output::usage;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use umbel::config::GenerateSettings;
use umbel::engine::EngineError;
use umbel::engine::prompt::request;
use umbel::generate::{Finish, GenerateError, GenerateRequest, Generator, Message};
use umbel::models::{self, ModelsError};

/// A model, and how it is asked.
#[derive(Clone)]
pub(super) struct Speaker {
    generator: Arc<dyn Generator>,
    settings: GenerateSettings,
}

/// What a model said.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Said {
    /// All of it.
    pub(super) text: String,
    /// Whether it came to the limit of its tokens.
    pub(super) cut: bool,
}

/// Why a model said nothing that can be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsaid {
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The model, or the way to it.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The server held the text back.
    #[error("the server held the answer back")]
    Filtered,
    /// The cache cannot be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Speaker {
    /// The model that the settings name.
    pub(super) fn new(settings: &GenerateSettings) -> anyhow::Result<Speaker> {
        let generator = models::generator(settings)
            .map_err(|error: ModelsError| anyhow::Error::from(error))?
            .ok_or(EngineError::NoGenerator)?;
        Ok(Speaker { generator, settings: settings.clone() })
    }

    /// What the server calls the model.
    pub(super) fn model(&self) -> &str {
        &self.settings.model
    }

    /// What it says to these messages, from the cache where it was asked the same before.
    pub(super) async fn say(&self, cache: &Cache, messages: Vec<Message>) -> Result<Said, Unsaid> {
        let request = request(messages, &self.settings);
        let key = self.key(&request);
        if let Some(said) = cache.get(&key) {
            return Ok(said);
        }
        let generated =
            self.generator.generate(&request, &mut |_: &str| interrupt::go_on()).await?;
        let cut = match generated.finish {
            Finish::Broken => return Err(Unsaid::Interrupted),
            Finish::Filtered => return Err(Unsaid::Filtered),
            Finish::Length => true,
            _ => false,
        };
        let said = Said { text: generated.text, cut };
        cache.keep(key, &said)?;
        Ok(said)
    }

    /// A hash of all that the answer depends on.
    fn key(&self, request: &GenerateRequest) -> String {
        let messages: Vec<(&str, &str)> =
            request.messages.iter().map(|m| (m.role.as_str(), m.content.as_str())).collect();
        let (max_tokens, temperature) = (request.max_tokens, request.temperature);
        let asked = serde_json::json!({
            "url": self.settings.url,
            "model": self.settings.model,
            "max_tokens": max_tokens,
            "temperature": temperature,
            "messages": messages,
        });
        blake3::hash(asked.to_string().as_bytes()).to_hex().to_string()
    }
}

/// What was said so far, by what was asked.
#[derive(Debug)]
pub(super) struct Cache {
    known: Mutex<HashMap<String, Said>>,
    file: Mutex<fs_err::File>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    asked: String,
    #[serde(flatten)]
    said: Said,
}

impl Cache {
    /// The cache in a file, which need not be there.
    pub(super) fn open(path: &Path) -> anyhow::Result<Cache> {
        let text = match fs_err::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(usage(error.to_string(), "name another file with --cache")),
        };
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let known: HashMap<String, Said> = lines.map(|line| (line.asked, line.said)).collect();
        if known.is_empty() && !text.trim().is_empty() {
            return Err(usage(
                format!("`{}` is there, and holds no answers", path.display()),
                "name another file with --cache",
            ));
        }
        let mut file = fs_err::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|error| usage(error.to_string(), "name another file with --cache"))?;
        // A line that a crash cut short ends here, so that it spoils no other.
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        Ok(Cache { known: Mutex::new(known), file: Mutex::new(file) })
    }

    fn get(&self, key: &str) -> Option<Said> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn keep(&self, key: String, said: &Said) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(&Line { asked: key.clone(), said: said.clone() })?;
        line.push(b'\n');
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, said.clone());
        Ok(())
    }
}
