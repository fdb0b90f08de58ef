//! A model's name → what it wants to read before a query and before a passage.
//!
//! Invariant: a name that is not known gives no prefixes.

/// What is put before a text, the space behind it included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prefixes {
    /// Before a query.
    pub query: String,
    /// Before a passage.
    pub passage: String,
}

/// What a name must hold, as words between `/`, `-`, `_`, `.` and `:`, and the prefixes that follow. The first row that fits
/// counts.
///
/// Source: the model cards of `intfloat/e5-*`, `intfloat/multilingual-e5-*`, `BAAI/bge-*` and `nomic-ai/nomic-embed-*`.
const KNOWN: [(&[&str], &str, &str); 9] = [
    (
        &["e5", "instruct"],
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ",
        "",
    ),
    (&["e5"], "query: ", "passage: "),
    // These read plain text, or instructions of another form.
    (&["bge", "m3"], "", ""),
    (&["bge", "icl"], "", ""),
    (&["bge", "reranker"], "", ""),
    (&["bge", "en"], "Represent this sentence for searching relevant passages: ", ""),
    (&["bge", "zh"], "为这个句子生成表示以用于检索相关文章：", ""),
    (&["nomic", "embed", "code"], "Represent this query for searching relevant code: ", ""),
    (&["nomic", "embed", "text"], "search_query: ", "search_document: "),
];

impl Prefixes {
    /// The prefixes of the e5, bge and nomic families, by name; none for others.
    pub fn of_model(name: &str) -> Self {
        let name = name.to_lowercase();
        let words: Vec<&str> = name.split(['/', '-', '_', '.', ':', '@']).collect();
        let row = KNOWN.iter().find(|(wanted, ..)| wanted.iter().all(|word| words.contains(word)));
        let (query, passage) = row.map_or(("", ""), |&(_, query, passage)| (query, passage));
        Self { query: query.to_owned(), passage: passage.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_known_by_their_names() {
        let check = |name: &str, query: &str, passage: &str| {
            let prefixes = Prefixes::of_model(name);
            assert!(prefixes.query.starts_with(query), "{name}: {prefixes:?}");
            assert_eq!(prefixes.query.is_empty(), query.is_empty(), "{name}");
            assert_eq!(prefixes.passage, passage, "{name}");
        };
        check("intfloat/e5-small-v2", "query: ", "passage: ");
        check("intfloat/multilingual-e5-large", "query: ", "passage: ");
        check("intfloat/multilingual-e5-large-instruct", "Instruct: ", "");
        check("intfloat/e5-mistral-7b-instruct", "Instruct: ", "");
        check("BAAI/bge-small-en-v1.5", "Represent this sentence", "");
        check("BAAI/bge-large-zh-v1.5", "为这个句子", "");
        check("BAAI/bge-m3", "", "");
        check("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: ");
        check("nomic-embed-text:latest", "search_query: ", "search_document: ");
        check("nomic-ai/nomic-embed-code", "Represent this query", "");
        check("text-embedding-3-small", "", "");
        check("sentence-transformers/all-MiniLM-L6-v2", "", "");
        check("someone/type5-model", "", "");
        check("", "", "");
    }
}
