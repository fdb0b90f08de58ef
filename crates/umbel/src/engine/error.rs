//! Why the engine did not do what it was asked, and what to type then.

use super::cursor::CursorError;
use crate::catalog::{CatalogError, RunId};
use crate::embed::EmbedError;
use crate::filter::FilterError;
use crate::index::IndexError;
use crate::index::lexical::LexicalError;
use crate::read::rules::RulesError;
use crate::store::StoreError;
use crate::tokens::TokensError;
use std::path::PathBuf;

/// Why the engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The catalog.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The index.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The embedder.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// A question was to be answered, and there is no generator.
    #[error("no generator is configured")]
    NoGenerator,
    /// The template of the prompt lacks a place.
    #[error("the template has no `{missing}`")]
    Template {
        /// The place.
        missing: &'static str,
    },
    /// The tokenizer of the budget.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The lexical leg.
    #[error(transparent)]
    Lexical(#[from] LexicalError),
    /// Metadata rules.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// Conditions of a search.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The page that is to follow another.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The caller asked to stop.
    #[error("stopped; what was committed is kept")]
    Interrupted,
    /// Vectors of two models do not mix.
    #[error("the store holds vectors of `{wanted}`, got `{got}`")]
    Model {
        /// What the store was made with.
        wanted: String,
        /// What came.
        got: String,
    },
    /// Words of two languages do not mix.
    #[error("the store holds words stemmed as `{wanted}`, got `{got}`")]
    Language {
        /// What the store was made with.
        wanted: String,
        /// What came.
        got: String,
    },
    /// A store with vectors is searched, and no model was given.
    #[error("the store holds vectors of `{model}`, and no model is loaded")]
    NoModel {
        /// What the store was made with.
        model: String,
    },
    /// Vectors are to be compared, and the store has none.
    #[error("the store has no vectors to compare")]
    NoVectors,
    /// A cluster run that is not kept, or was reverted before.
    #[error("the store has no cluster run `{run}` that could be reverted")]
    UnknownRun {
        /// What was asked for.
        run: RunId,
        /// The runs that can be reverted, newest first.
        known: Vec<RunId>,
    },
    /// A cluster that is not there.
    #[error("the store has no cluster `{id}`")]
    UnknownCluster {
        /// What was asked for.
        id: String,
    },
    /// A path that is to be indexed does not exist.
    #[error("`{path}` does not exist")]
    MissingPath {
        /// The path.
        path: PathBuf,
    },
    /// A path that is to be indexed cannot be reached.
    #[error("`{path}` cannot be reached")]
    UnreachablePath {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A folder is indexed already, under another name.
    #[error("`{root}` is the source `{name}` already")]
    SourceKnown {
        /// The name.
        name: String,
        /// The folder.
        root: PathBuf,
    },
    /// A source's name is taken by another folder.
    #[error("the source `{name}` is `{known}`, got `{given}`")]
    SourceTaken {
        /// The name.
        name: String,
        /// The folder it stands for.
        known: PathBuf,
        /// The folder that came.
        given: PathBuf,
    },
    /// A name that is no source and no document.
    #[error("the store has no source and no document `{name}`")]
    Unknown {
        /// The name.
        name: String,
        /// Names that look like it.
        similar: Vec<String>,
    },
    /// A span that is not in its document.
    #[error(
        "`{name}` has no span {start}..{end}: its text has {len} bytes, and a span starts and ends between characters"
    )]
    NoSpan {
        /// The document.
        name: String,
        /// The span's start.
        start: usize,
        /// The span's end.
        end: usize,
        /// The bytes of the document.
        len: usize,
    },
}

impl EngineError {
    /// What to type, where there is something.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            EngineError::Store(StoreError::Missing { .. }) => "make one with `umbel index FOLDER`, or name it with `--store DIR`".to_owned(),
            EngineError::Store(StoreError::Held { pid, .. }) => {
                format!("wait for process {pid} or stop it; `umbel tree`, `stats` and `check` work beside it")
            }
            EngineError::Store(StoreError::Unusable { .. }) => "check the permissions and the space of the folder, or choose another with `--store DIR`".to_owned(),
            EngineError::Catalog(CatalogError::Version { .. }) => "use the version of umbel that wrote it, or start over with `umbel index --rebuild FOLDER`".to_owned(),
            EngineError::Catalog(CatalogError::Corrupt { .. }) => "start over with `umbel index --rebuild FOLDER`".to_owned(),
            EngineError::Catalog(CatalogError::Unwritable { .. }) => "check the permissions and the space of the folder; what was committed is safe".to_owned(),
            EngineError::Catalog(CatalogError::Outdated { .. }) => "copy the store to a folder that can be written, and open it there".to_owned(),
            EngineError::Filter(error) => error.hint(),
            EngineError::Cursor(error) => error.hint().to_owned(),
            EngineError::Embed(error) => return error.hint(),
            EngineError::Tokens(_) => "set `leaf.tokenizer` to one of these".to_owned(),
            EngineError::NoGenerator => "name one with `--set generate.url=http://localhost:11434 --set generate.model=NAME`, or look at the passages with `umbel search`".to_owned(),
            EngineError::Template { missing } => format!("write {missing} where it is to stand"),
            EngineError::Rules(_) => "correct the file given with `--meta`; `umbel index --help` shows one".to_owned(),
            EngineError::Interrupted => "run the same command again: it goes on from there".to_owned(),
            EngineError::Index(_) => "run the command again: the index is rebuilt from the catalog where it is damaged".to_owned(),
            EngineError::Lexical(_) => "set `lexical.language` to one of these".to_owned(),
            EngineError::Model { wanted, .. } => {
                let name = wanted.split('@').next().unwrap_or_default();
                format!("set `embed.model` to `{name}`, or embed everything again with `umbel index --rebuild FOLDER`")
            }
            EngineError::Language { wanted, .. } => format!("set `lexical.language` to `{wanted}`, or start over with `umbel index --rebuild FOLDER`"),
            EngineError::NoModel { .. } => "leave `--lexical` out: `umbel model pull` fetches the model".to_owned(),
            EngineError::NoVectors => "embed them with `umbel index FOLDER`, or compare words with `--near`".to_owned(),
            EngineError::UnknownRun { known, .. } if known.is_empty() => "look for duplicates with `umbel dupes run`".to_owned(),
            EngineError::UnknownRun { known, .. } => {
                let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                format!("these can be reverted: `{}`", known.join("`, `"))
            }
            EngineError::UnknownCluster { .. } => "`umbel dupes show` lists the clusters".to_owned(),
            EngineError::UnreachablePath { .. } => "check the permissions of the folders above it".to_owned(),
            EngineError::SourceKnown { name, .. } => format!("leave `--source` out, or take it out first with `umbel remove {name}`"),
            EngineError::Store(StoreError::Foreign { .. }) => "give an empty or a new folder with `--store DIR`".to_owned(),
            EngineError::MissingPath { .. } => "give a folder or file that exists".to_owned(),
            EngineError::SourceTaken { name, .. } => format!("give the folder a name of its own with `--source NAME`, or say that it moved with `--source {name}`"),
            EngineError::Unknown { similar, .. } if !similar.is_empty() => format!("did you mean `{}`?", similar.join("`, `")),
            EngineError::Unknown { .. } => "`umbel stats` counts the documents, `umbel tree` lists them".to_owned(),
            EngineError::NoSpan { name, .. } => format!("`umbel tree {name}` lists spans"),
            _ => return None,
        })
    }
}
