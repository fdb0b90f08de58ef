//! A folder and what the caller brings → a store that fits them, or why it does not.
//!
//! Invariant: an index that does not hold what the catalog says is built anew, never searched.

use super::{CUT_FOR_MODEL, EngineError, MODEL_LIMIT, remove};
use crate::catalog::Catalog;
use crate::config::Config;
use crate::embed::Embedder;
use crate::index::edge::{EdgeIndex, EdgeOptions};
use crate::index::{Index, IndexError};
use crate::store::{Layout, StoreError};

/// Setting that tells a store from every other.
pub(super) const STORE_ID: &str = "store_id";

/// What store and caller agreed on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agreed {
    /// Length of the vectors; `None` for a store without.
    dimension: Option<usize>,
    /// Whether the index is to be built anew.
    rebuild: bool,
    /// Whether there were documents, and no vectors: their leaves are to be cut again to fit the model.
    pub(super) gained_vectors: bool,
}

/// Gives a store an id, unless it has one.
pub(super) async fn name_store(catalog: &dyn Catalog, layout: &Layout) -> Result<(), EngineError> {
    if catalog.describe().await?.settings.contains_key(STORE_ID) {
        return Ok(());
    }
    let place = layout.dir.display();
    let once = format!("{} {} {place}", jiff::Timestamp::now(), std::process::id());
    let id: String = blake3::hash(once.as_bytes()).to_hex().chars().take(16).collect();
    Ok(catalog.set(&[(STORE_ID, &id)]).await?)
}

/// Compares what the store was made with to what the caller brings, and writes it down for a new one.
pub(super) async fn agree(
    catalog: &dyn Catalog,
    config: &Config,
    embedder: Option<&dyn Embedder>,
) -> Result<Agreed, EngineError> {
    let info = catalog.describe().await?;
    let language = &config.settings().lexical.language;
    let setting = |key: &str| info.settings.get(key).map(String::as_str).unwrap_or_default();
    let is_new = !info.settings.contains_key("model");
    if !is_new && setting("language") != language {
        return Err(EngineError::Language {
            wanted: setting("language").to_owned(),
            got: language.clone(),
        });
    }
    let wanted = setting("model");
    let dimension = embedder.map(|embedder| embedder.describe().dimension);
    match embedder.map(|embedder| embedder.describe().model.as_str()) {
        Some(got) if !wanted.is_empty() && wanted != got => {
            Err(EngineError::Model { wanted: wanted.to_owned(), got: got.to_owned() })
        }
        Some(got) if wanted.is_empty() => {
            let dimension = dimension.unwrap_or_default();
            let cut = if info.documents > 0 { "no" } else { "" };
            let size = dimension.to_string();
            let limit = embedder.map_or(0, |embedder| embedder.describe().max_tokens).to_string();
            let settings = [
                ("model", got),
                ("dimension", &size),
                ("language", language),
                (MODEL_LIMIT, &limit),
                (CUT_FOR_MODEL, cut),
            ];
            catalog.set(&settings).await?;
            Ok(Agreed {
                dimension: Some(dimension),
                rebuild: true,
                gained_vectors: info.documents > 0,
            })
        }
        None if is_new => {
            catalog.set(&[("model", ""), ("dimension", ""), ("language", language)]).await?;
            Ok(Agreed { dimension: None, rebuild: true, gained_vectors: false })
        }
        got => Ok(Agreed {
            dimension: setting("dimension").parse().ok(),
            rebuild: false,
            gained_vectors: got.is_some() && setting(CUT_FOR_MODEL) == "no",
        }),
    }
}

/// Opens the index; builds it anew where it is damaged, or does not hold what the catalog says it does.
pub(super) async fn open_index(
    catalog: &dyn Catalog,
    layout: &Layout,
    agreed: Agreed,
) -> Result<(EdgeIndex, Vec<String>), EngineError> {
    let mut warnings = Vec::new();
    let path = layout.index();
    let options = EdgeOptions { dimension: agreed.dimension };
    if !agreed.rebuild {
        match EdgeIndex::open(&path, &options) {
            Ok(index) => {
                let settled: usize =
                    catalog.list().await?.iter().filter(|e| e.indexed).map(|e| e.leaves).sum();
                if index.describe().await?.points >= settled {
                    return Ok((index, warnings));
                }
                warnings.push(
                    "the index had lost leaves and was built anew from the catalog".to_owned(),
                );
            }
            Err(IndexError::Corrupt { source, .. }) => {
                warnings.push(format!(
                    "the index was damaged and was built anew from the catalog: {source}"
                ));
            }
            // The store was given a model, and the process ended before the index was made for it.
            Err(IndexError::Dimension { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    remove(&path).map_err(|source| StoreError::Unusable { dir: layout.dir.clone(), source })?;
    catalog.unsettle().await?;
    Ok((EdgeIndex::open(&path, &options)?, warnings))
}
