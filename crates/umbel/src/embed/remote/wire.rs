//! A batch of texts → a request as the server knows it, and its answer → rows in the order of the texts.
//!
//! Invariant: there is exactly one row for each text.
//!
//! Source: the OpenAPI descriptions of OpenAI's embeddings endpoint and of text-embeddings-inference.

use serde::{Deserialize, Serialize};

use super::{RemoteEmbedError, Shared, TooLong};
use crate::remote::Wanted;

/// What a server that embeds speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `/v1/embeddings` of OpenAI and the many that do as it does.
    OpenAi,
    /// `/embed` and `/info` of text-embeddings-inference.
    Tei,
}

#[derive(Serialize)]
struct OpenAiRequest<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct OpenAiAnswer {
    data: Vec<OpenAiRow>,
}

#[derive(Deserialize)]
struct OpenAiRow {
    /// Some servers leave it out, and keep the order.
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Serialize)]
struct TeiRequest<'a> {
    inputs: &'a [String],
    truncate: bool,
    normalize: bool,
}

impl Shared {
    /// One request: a row for each text, as the server gave it.
    pub(super) fn request(
        &self,
        texts: &[String],
        too_long: TooLong,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Vec<f32>>, RemoteEmbedError> {
        let rows = match self.api {
            Api::OpenAi => {
                let request = OpenAiRequest {
                    model: &self.model,
                    input: texts,
                    encoding_format: "float",
                    dimensions: self.asked,
                };
                let answer = self.client.post_while("/v1/embeddings", &request, wanted)?;
                in_order(answer, texts.len())?
            }
            Api::Tei => {
                let truncate = too_long == TooLong::Truncate;
                let request = TeiRequest { inputs: texts, truncate, normalize: true };
                self.client.post_while("/embed", &request, wanted)?
            }
        };
        if rows.len() == texts.len() {
            Ok(rows)
        } else {
            Err(RemoteEmbedError::Rows { got: rows.len(), wanted: texts.len() })
        }
    }
}

fn in_order(answer: OpenAiAnswer, n_texts: usize) -> Result<Vec<Vec<f32>>, RemoteEmbedError> {
    let got = answer.data.len();
    if got != n_texts {
        return Err(RemoteEmbedError::Rows { got, wanted: n_texts });
    }
    let mut rows: Vec<Option<Vec<f32>>> = vec![None; n_texts];
    for (place, row) in answer.data.into_iter().enumerate() {
        let index = row.index.unwrap_or(place);
        match rows.get_mut(index) {
            Some(free @ None) => *free = Some(row.embedding),
            _ => return Err(RemoteEmbedError::Index { index, n_texts }),
        }
    }
    // As many rows as texts, and none twice: each text has one.
    Ok(rows.into_iter().flatten().collect())
}
