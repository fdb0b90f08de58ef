//! Duplicates in real documents: what the default threshold finds, what it misses, and what it leaves alone.

use super::support::read;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use umbel::core::document::Document;
use umbel::core::id::LeafId;
use umbel::core::measure::word_parts;
use umbel::core::span::{Span, slice};
use umbel::core::tree::Leaf;
use umbel::dedup::cluster::Pair;
use umbel::dedup::compare::{Profile, compare};
use umbel::dedup::sketch::{Sketch, candidates};
use umbel::dedup::words::{SHINGLE_WORDS, SHORT_WORDS, leaf_text};
use umbel::dedup::{Cluster, Method, Wording, clusters, nodes};
use umbel::engine::ingest::leaf_ids;

/// The shared folder of test data, beside the repository; says so where it is absent.
fn shared(path: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(path);
    if found.exists() {
        return Some(found);
    }
    eprintln!("skipped: `../shared/data/{path}` is not here");
    None
}

/// Documents with their leaves, as duplicates are looked for in them.
struct Corpus {
    documents: BTreeMap<String, Document>,
    /// Each leaf's document and place in it.
    places: BTreeMap<LeafId, (String, usize)>,
    sketches: Vec<(LeafId, Sketch)>,
    profiles: BTreeMap<LeafId, Profile>,
}

impl Corpus {
    fn of(texts: BTreeMap<String, String>) -> Corpus {
        let documents: BTreeMap<String, Document> =
            texts.into_iter().map(|(name, text)| (name, read(&text))).collect();
        let (mut places, mut sketches, mut profiles) =
            (BTreeMap::new(), Vec::new(), BTreeMap::new());
        for (name, document) in &documents {
            let ids = leaf_ids("s", name, document);
            for (at, (leaf, id)) in document.tree.leaves.iter().zip(ids).enumerate() {
                sketches.push((id, Sketch::of_leaf(document, leaf)));
                profiles.insert(id, Profile::of_leaf(document, leaf));
                places.insert(id, (name.clone(), at));
            }
        }
        Corpus { documents, places, sketches, profiles }
    }

    /// All Markdown files below a folder, by their path in it.
    fn markdown(folder: &Path) -> Corpus {
        let mut texts = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(at) = folders.pop() {
            for entry in fs_err::read_dir(at).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "md") {
                    let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                    texts.insert(name, fs_err::read_to_string(&path).unwrap());
                }
            }
        }
        Corpus::of(texts)
    }

    fn leaf(&self, leaf: LeafId) -> (&Document, &Leaf) {
        let (name, at) = &self.places[&leaf];
        let document = &self.documents[name];
        (document, &document.tree.leaves[*at])
    }

    fn name(&self, leaf: LeafId) -> &str {
        &self.places[&leaf].0
    }

    /// The pairs of wordings that are found at a threshold, of which one `is_new`.
    fn pairs(
        &self,
        jaccard: f64,
        is_new: &(dyn Fn(&[LeafId]) -> bool + Sync),
    ) -> Vec<Pair<Wording>> {
        let method = Method::Near { jaccard };
        let nodes = nodes(&self.sketches, &method);
        let sketches: Vec<&Sketch> = nodes.iter().map(|node| node.sketch).collect();
        let worth = candidates(&sketches, &|at| is_new(&nodes[at].leaves), jaccard);
        let found = compare(&worth, &|at| self.profiles.get(nodes[at].leaves.first()?));
        let pair = |likeness: &umbel::dedup::compare::Likeness| {
            let similarity = method.accepts(likeness, 0.0)?;
            Some(Pair::new(nodes[likeness.a].wording, nodes[likeness.b].wording, similarity))
        };
        found.iter().filter_map(pair).collect()
    }

    fn clusters(&self, jaccard: f64) -> Vec<Cluster> {
        let nodes = nodes(&self.sketches, &Method::Near { jaccard });
        clusters(&nodes, &self.pairs(jaccard, &|_| true))
    }
}

/// Pairs of documents of which at least 0.8 of the bytes of both lie in clusters that they have in common.
fn paired_documents(corpus: &Corpus, clusters: &[Cluster]) -> BTreeSet<(String, String)> {
    let bytes = |leaf: LeafId| corpus.leaf(leaf).1.span.len();
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for &leaf in corpus.places.keys() {
        *all.entry(corpus.name(leaf)).or_default() += bytes(leaf);
    }
    let mut common: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for cluster in clusters {
        let mut of: BTreeMap<&str, usize> = BTreeMap::new();
        for &leaf in &cluster.members {
            *of.entry(corpus.name(leaf)).or_default() += bytes(leaf);
        }
        for (at, (a, of_a)) in of.iter().enumerate() {
            for (b, of_b) in of.iter().skip(at + 1) {
                *common.entry((a, b)).or_default() += of_a + of_b;
            }
        }
    }
    let paired =
        |&((a, b), bytes): &((&str, &str), usize)| bytes as f64 >= 0.8 * (all[a] + all[b]) as f64;
    common.into_iter().filter(paired).map(|((a, b), _)| (a.to_owned(), b.to_owned())).collect()
}

fn share(some: usize, all: usize) -> f64 {
    some as f64 / all.max(1) as f64
}

#[test]
fn pages_that_mirror_each_other_are_found_and_others_are_not() {
    let Some(folder) = shared("dup-jest-versioned-docs") else { return };
    let corpus = Corpus::markdown(&folder.join("corpus"));
    let truth: BTreeSet<(String, String)> = fs_err::read_to_string(folder.join("pairs.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|pair| pair["jaccard5"].as_f64().unwrap() >= 0.8)
        .map(|pair| {
            let name = |side: &str| pair[side].as_str().unwrap().to_owned();
            let (a, b) = (name("a"), name("b"));
            (a.clone().min(b.clone()), a.max(b))
        })
        .collect();
    for threshold in [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0] {
        let found = paired_documents(&corpus, &corpus.clusters(threshold));
        let right = found.intersection(&truth).count();
        let (recall, precision) = (share(right, truth.len()), share(right, found.len()));
        eprintln!(
            "documents at {threshold}: recall {right} of {} ({recall:.3}), precision {right} of {} ({precision:.3})",
            truth.len(),
            found.len()
        );
        if Method::default() == (Method::Near { jaccard: threshold }) {
            assert!(recall >= 0.95 && precision >= 0.95, "{recall} {precision}");
        }
    }
}

/// The shingles of a leaf as texts: the same definition, without a hash.
fn spelled_shingles(document: &Document, leaf: &Leaf) -> BTreeSet<Vec<String>> {
    let words = |text: &str| -> Vec<String> {
        let parts = word_parts(text, Span::new(0, text.len()));
        let parts = parts.into_iter().map(|part| slice(text, part));
        let spelled = parts.filter(|part| part.contains(char::is_alphanumeric));
        spelled.map(|part| part.trim_matches('_').to_lowercase()).collect()
    };
    let mut own = words(&leaf_text(document, leaf));
    if own.len() < SHORT_WORDS {
        let path = document.tree.heading_texts(&leaf.path);
        let title = Some(document.title.clone()).filter(|title| path.first() != Some(title));
        let above: Vec<String> =
            title.into_iter().chain(path).flat_map(|heading| words(&heading)).collect();
        own.splice(0..0, above);
    }
    own.windows(SHINGLE_WORDS.min(own.len()).max(1)).map(<[String]>::to_vec).collect()
}

#[test]
fn leaves_are_paired_as_an_exact_comparison_of_all_pairs_says() {
    let Some(folder) = shared("dup-jest-versioned-docs/corpus") else { return };
    let corpus = Corpus::markdown(&folder);
    // Leaves with the same shingles are compared once, and counted as often as there are pairs of them.
    let mut wordings: BTreeMap<BTreeSet<Vec<String>>, Vec<LeafId>> = BTreeMap::new();
    for &leaf in corpus.places.keys() {
        let (document, node) = corpus.leaf(leaf);
        wordings.entry(spelled_shingles(document, node)).or_default().push(leaf);
    }
    let wordings: Vec<_> =
        wordings.into_iter().filter(|(shingles, _)| !shingles.is_empty()).collect();
    let similarity = |a: &BTreeSet<Vec<String>>, b: &BTreeSet<Vec<String>>| {
        // No intersection of sets of such sizes would reach the lowest threshold.
        let (few, many) = (a.len().min(b.len()), a.len().max(b.len()));
        if few * 2 < many {
            return 0.0;
        }
        let both = a.intersection(b).count();
        share(both, a.len() + b.len() - both)
    };
    let mut similar: Vec<(usize, usize, f64)> = Vec::new();
    for (a, (shingles, _)) in wordings.iter().enumerate() {
        for (b, (others, _)) in wordings.iter().enumerate().skip(a + 1) {
            let found = similarity(shingles, others);
            if found >= 0.5 {
                similar.push((a, b, found));
            }
        }
    }
    let wording_of: BTreeMap<LeafId, usize> = wordings
        .iter()
        .enumerate()
        .flat_map(|(at, (_, leaves))| leaves.iter().map(move |&leaf| (leaf, at)))
        .collect();
    for threshold in [0.5, 0.6, 0.7, 0.8, 0.9] {
        let alike: BTreeSet<(usize, usize)> =
            similar.iter().filter(|(.., s)| *s >= threshold).map(|&(a, b, _)| (a, b)).collect();
        let n = |at: usize| wordings[at].1.len();
        let wanted: usize = alike.iter().map(|&(a, b)| n(a) * n(b)).sum::<usize>()
            + (0..wordings.len()).map(|at| n(at) * (n(at) - 1) / 2).sum::<usize>();
        let (mut found, mut wrong) = (0, 0);
        for cluster in corpus.clusters(threshold) {
            for (at, one) in cluster.members.iter().enumerate() {
                for other in &cluster.members[at + 1..] {
                    let pair = [one, other].map(|leaf| wording_of.get(leaf).copied());
                    let right = pair[0] == pair[1]
                        || matches!(pair, [Some(a), Some(b)] if alike.contains(&(a.min(b), a.max(b))));
                    found += 1;
                    wrong += usize::from(!right);
                }
            }
        }
        let recall = share(found - wrong, wanted);
        eprintln!(
            "leaves at {threshold}: recall {} of {wanted} ({recall:.4}), {wrong} of {found} wrong",
            found - wrong
        );
        if Method::default() == (Method::Near { jaccard: threshold }) {
            assert!(recall >= 0.95, "{recall}");
            assert_eq!(wrong, 0, "precision is 1");
        }
    }
}

/// The numbers of a text with a digit, by a rule of their own.
fn numbers(text: &str) -> BTreeSet<String> {
    let inside = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    text.split(|c: char| !inside(c))
        .map(|word| word.trim_matches(['.', ',']).to_owned())
        .filter(|word| word.contains(|c: char| c.is_ascii_digit()))
        .collect()
}

/// Prints how many wordings are similar, and how many of them state the same facts.
fn print_table(name: &str, corpus: &Corpus) -> usize {
    let nodes = nodes(&corpus.sketches, &Method::default());
    let sketches: Vec<&Sketch> = nodes.iter().map(|node| node.sketch).collect();
    let worth = candidates(&sketches, &|_| true, 0.5);
    let found = compare(&worth, &|at| corpus.profiles.get(nodes[at].leaves.first()?));
    eprintln!("{name}: {} leaves, {} wordings", corpus.places.len(), nodes.len());
    let mut refused_at_default = 0;
    for threshold in [0.5, 0.6, 0.7, 0.8, 0.9] {
        let similar: Vec<_> = found.iter().filter(|found| found.shingles >= threshold).collect();
        let agree = similar.iter().filter(|found| found.facts_agree).count();
        let clusters = corpus.clusters(threshold);
        let members: usize = clusters.iter().map(|cluster| cluster.members.len()).sum();
        eprintln!(
            "{name} at {threshold}: {} similar pairs of wordings, {agree} with the same facts; {members} leaves in {} clusters",
            similar.len(),
            clusters.len()
        );
        if Method::default() == (Method::Near { jaccard: threshold }) {
            refused_at_default = similar.len() - agree;
        }
    }
    refused_at_default
}

#[test]
#[cfg(feature = "pdf")]
fn forms_that_are_filled_in_with_other_facts_are_not_duplicates() {
    let Some(folder) = shared("kg-rag-sec10q/pdfs") else { return };
    let mut texts = BTreeMap::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let converted = umbel::formats::pdf::convert(&fs_err::read(&path).unwrap()).unwrap();
        texts.insert(path.file_name().unwrap().to_str().unwrap().to_owned(), converted.text);
    }
    let corpus = Corpus::of(texts);
    // Quarters of one company are near-templates of each other.
    assert!(print_table("quarterly reports", &corpus) >= 200);
    let Method::Near { jaccard } = Method::default() else { return };
    for cluster in corpus.clusters(jaccard) {
        for (at, &one) in cluster.members.iter().enumerate() {
            for &other in &cluster.members[at + 1..] {
                let [a, b] = [one, other].map(|leaf| {
                    let (document, leaf) = corpus.leaf(leaf);
                    numbers(&leaf_text(document, leaf))
                });
                assert!(
                    a.is_subset(&b) || b.is_subset(&a),
                    "{} and {} state other numbers: {:?}, {:?}",
                    corpus.name(one),
                    corpus.name(other),
                    a.difference(&b).collect::<Vec<_>>(),
                    b.difference(&a).collect::<Vec<_>>()
                );
            }
        }
    }
}

#[test]
fn pages_that_are_mirrored_inside_longer_chapters_are_found_by_their_leaves() {
    let Some(folder) = shared("rust-book/corpus") else { return };
    let corpus = Corpus::markdown(&folder);
    print_table("book", &corpus);
    let Method::Near { jaccard } = Method::default() else { return };
    let clusters = corpus.clusters(jaccard);
    let spans = |cluster: &&Cluster| {
        let names: BTreeSet<&str> = cluster.members.iter().map(|&leaf| corpus.name(leaf)).collect();
        names.iter().any(|name| name.starts_with("src/"))
            && names.iter().any(|name| name.starts_with("nostarch/"))
    };
    let mirrored = clusters.iter().filter(spans).count();
    assert!(mirrored >= 500, "{mirrored} leaves of the book stand in the print chapters too");
}

/// A corpus of one page for each text.
fn pages(texts: &[&str]) -> Corpus {
    let numbered = texts.iter().enumerate();
    Corpus::of(numbered.map(|(at, text)| (format!("{at}.md"), (*text).to_owned())).collect())
}

#[test]
fn d13_unlike_short_sections_are_not_duplicates() {
    let texts = [
        "The pump is oiled every week. Check the level before you start it.",
        "Refunds are paid within thirty days to the account that was charged.",
        "Our office in Lisbon opens at nine and closes at six.",
        "Every commit is signed. Unsigned commits are refused by the server.",
        "Use a query parameter to page through long lists of results.",
        "Pregnant employees may work from home from the sixth month on.",
        "Bees leave the hive when it is warmer than ten degrees.",
        "The cache is emptied at midnight, and whenever a product changes.",
        "Write to the clerk of the court, with two copies of the contract.",
        "Tyres are changed in October and again after Easter.",
        "A key that was never used is deleted after a year.",
        "Mix flour and water, and let the dough rest over night.",
        "The train to the coast runs on Sundays and on holidays only.",
        "Logs are kept for ninety days and are then made anonymous.",
        "Ask your manager before you book a flight over the ocean.",
        "Paint the wall twice, and wait a day between the coats.",
    ];
    let corpus = pages(&texts);
    assert_eq!(corpus.sketches.len(), texts.len());
    assert_eq!(corpus.pairs(0.8, &|_| true), []);
    assert_eq!(corpus.clusters(0.8), []);
}

/// How many clusters there are, at the default, of pages with these texts.
fn check_clusters(texts: &[&str], expected: usize) {
    let Method::Near { jaccard } = Method::default() else { return };
    let corpus = pages(texts);
    let found = corpus.clusters(jaccard);
    assert_eq!(found.len(), expected, "{texts:?}");
}

#[test]
fn what_decides_whether_a_copy_is_one() {
    let rule = "An invoice can be disputed within 30 days of the day on which it was sent. Write to the accounts \
        office, name the invoice and the line that you dispute, and add what supports your claim. The office \
        answers within a week, and nothing is due while it looks into the matter. If it does not agree, you are \
        told why, and the invoice is due on the day after. Whoever pays late is written to once before interest \
        is charged, and interest is charged for whole days only. Nobody is cut off while a claim is open, and a \
        claim that is made in good faith is never held against you when the contract is to be renewed.";
    check_clusters(&[rule, rule], 1);
    // Case, blanks and markup are nothing that is said.
    check_clusters(&[rule, &rule.replace("accounts office", "**accounts**\n_office_")], 1);
    check_clusters(&[rule, &rule.replace(" matter", " whole matter")], 1);
    check_clusters(&[rule, &rule.replace("30", "60")], 0);
    check_clusters(&[&rule.replace("a week", "5 days"), &rule.replace("a week", "-5 days")], 0);
    check_clusters(&[&rule.replace("accounts", "Lisbon"), &rule.replace("accounts", "Porto")], 0);
    check_clusters(
        &[&rule.replace("a week", "two weeks"), &rule.replace("a week", "three weeks")],
        0,
    );
    // A copy may have grown.
    check_clusters(
        &[rule, &rule.replace("a week.", "a week.\n\nSince 2024 this holds in Lisbon too.")],
        1,
    );
    // Short leaves are told apart by what stands above them.
    check_clusters(&["# Retries\n\nDefault: `false`", "# Caching\n\nDefault: `false`"], 0);
    check_clusters(&["# Retries\n\nDefault: `false`", "# Retries\n\nDefault: `false`"], 1);
    check_clusters(&["# Retries\n\nDefault: `false`", "# Retries\n\nDefault: `true`"], 0);
}

/// Texts of few words, so that many of them are alike.
fn texts() -> impl Strategy<Value = Vec<String>> {
    let sentence = prop::sample::select(vec![
        "the pump runs for a while and then it rests until somebody starts it again by hand",
        "write to the office and name the line of the letter that you are not content with",
        "nobody may enter the hall while the light above the door is red or the bell rings",
        "all of this is checked once a year by people who were never seen here before that",
        "30 days",
        "60 days",
        "and more of it",
    ]);
    let text = prop::collection::vec(sentence, 0..6).prop_map(|sentences| sentences.join(". "));
    prop::collection::vec(text, 2..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn clusters_keep_every_promise(texts in texts(), n_old in 0_usize..24, threshold in 0.5_f64..1.0) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut corpus = pages(&texts);
        let found = corpus.clusters(threshold);
        let mut seen = BTreeSet::new();
        for cluster in &found {
            // One representative, and every member within the threshold of it and of each other.
            prop_assert!(cluster.members.len() > 1 && cluster.members.is_sorted());
            prop_assert!(cluster.members.iter().all(|leaf| seen.insert(*leaf)), "a leaf in two clusters");
            let profiles: Vec<&Profile> =
                cluster.members.iter().map(|leaf| &corpus.profiles[leaf]).collect();
            let n = profiles.len();
            let all: Vec<(usize, usize)> =
                (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect();
            for likeness in compare(&all, &|at| profiles.get(at).copied()) {
                prop_assert!(likeness.shingles >= threshold && likeness.facts_agree, "{likeness:?}");
            }
        }
        // The leaves in another order give the same clusters, on one thread as well.
        corpus.sketches.reverse();
        prop_assert_eq!(&corpus.clusters(threshold), &found);
        let one = rayon_of_one(|| corpus.clusters(threshold));
        prop_assert_eq!(&one, &found);
        // What is compared in two steps is compared all the same.
        let old: BTreeSet<LeafId> = corpus
            .places
            .iter()
            .filter(|(_, (name, _))| name.trim_end_matches(".md").parse::<usize>().unwrap() < n_old)
            .map(|(leaf, _)| *leaf)
            .collect();
        let is_old = |leaves: &[LeafId]| leaves.iter().any(|leaf| old.contains(leaf));
        let mut pairs = corpus.pairs(threshold, &|leaves| !is_old(leaves));
        let before = Corpus {
            documents: BTreeMap::new(),
            places: BTreeMap::new(),
            sketches: corpus.sketches.iter().filter(|(leaf, _)| old.contains(leaf)).cloned().collect(),
            profiles: corpus.profiles.clone(),
        };
        pairs.extend(before.pairs(threshold, &|_| true));
        let nodes = nodes(&corpus.sketches, &Method::Near { jaccard: threshold });
        prop_assert_eq!(&clusters(&nodes, &pairs), &found);
    }
}

/// Runs something on a pool of one thread.
fn rayon_of_one<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(run)
}
