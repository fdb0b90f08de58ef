//! Inputs that broke the tools people use, named by their ids. Cases that need a store are in the command line's tests.

use super::support::{context, hits, leaf_texts, library, read, read_with, settings, text};
use std::collections::BTreeSet;
use umbel::core::check::{Allowed, check};
use umbel::core::collapse::collapse;
use umbel::core::document::Document;
use umbel::core::expand::Expansion;
use umbel::core::leaf::{EmbedLimit, embedded_text};
use umbel::core::merge::{BlockedBy, Item, ItemKind, MergeConfig, merge};
use umbel::core::offsets::TokenCounter as _;
use umbel::core::outline::{Format, parse};
use umbel::core::pack::{DropReason, Order, pack};
use umbel::core::span::Span;
use umbel::core::trace::assemble;
use umbel::tokens::OpenAiTokens;

/// The text of each passage.
fn text_of(document: &Document, context: &umbel::core::pack::Context) -> Vec<String> {
    context.passages.iter().map(|passage| text(document, passage.span).to_owned()).collect()
}

/// The heading path of each leaf.
fn paths(document: &Document) -> Vec<Vec<String>> {
    document.tree.leaves.iter().map(|leaf| document.tree.heading_texts(&leaf.path)).collect()
}

fn holds(document: &Document) {
    let outline = parse(&document.text, document.body, Format::Markdown);
    assert_eq!(check(document, &outline, Allowed::default()), [], "{}", document.text);
}

/// A sentence of about `n` tokens that no other call with another seed gives.
fn prose(seed: usize, n: usize) -> String {
    let words: Vec<String> = (0..n)
        .map(|at| {
            ["red", "green", "blue", "door", "lake", "stone"][(seed * 7 + at * 5) % 6].to_owned()
        })
        .collect();
    format!("Item {seed} {}.", words.join(" "))
}

/// A section with `n` paragraphs of about 150 tokens: one leaf each.
fn long_section(title: &str, n: usize) -> String {
    let paragraphs: Vec<String> = (0..n).map(|at| prose(at, 150)).collect();
    format!("## {title}\n\n{}\n\n", paragraphs.join("\n\n"))
}

#[test]
fn l1_a_missing_parent_record_keeps_the_children() {
    let document = read(&(long_section("A", 4) + &long_section("B", 4)));
    let found = hits(&[&document], &[(0, 0), (0, 1), (0, 2)]);
    let mut broken = document.clone();
    broken.tree.nodes.truncate(1);
    let (context, trace) = assemble(found, &library(&[&broken]), &settings(2000), None);
    assert_eq!(
        trace.merge.blocked.iter().map(|(_, reason)| *reason).collect::<Vec<_>>(),
        [BlockedBy::ParentMissing]
    );
    assert_eq!(context.passages.iter().map(|p| p.evidence.len()).sum::<usize>(), 3);
}

#[test]
fn l2_a_document_of_one_leaf_stays_the_leaf() {
    let words = vec!["word"; 40].join(" ");
    let document = read(&format!("# Note\n\n{words}\n"));
    assert_eq!((document.tree.nodes.len(), document.tree.leaves.len()), (1, 1));
    for expansion in [Expansion::None, Expansion::Parent] {
        let config = umbel::core::trace::AssembleConfig { expansion, ..settings(2000) };
        let (context, trace) = context(&[&document], &[(0, 0)], &config);
        assert_eq!(context.passages[0].kind, ItemKind::Leaf);
        assert_eq!(context.passages[0].span, document.tree.leaves[0].span);
        assert!(trace.merge.fires.is_empty());
    }
}

#[test]
fn l4_a_heading_of_300_words_does_not_stop_progress() {
    struct Limit;
    impl EmbedLimit for Limit {
        fn max_tokens(&self) -> usize {
            128
        }
        fn count_tokens(&self, text: &str) -> usize {
            OpenAiTokens::o200k().count(text) + 2
        }
    }
    let heading = vec!["heading"; 300].join(" ");
    let document = read_with(
        &format!("# {heading}\n\n## Sub\n\nThe body.\n"),
        &["leaf.target=64"],
        Some(&Limit),
    );
    holds(&document);
    assert!(document.warnings.iter().any(|w| w.contains("shortened")), "{:?}", document.warnings);
    for leaf in &document.tree.leaves {
        assert!(leaf.tokens <= 64);
        let embedded = embedded_text(&document.text, &document.title, &document.tree, leaf);
        assert!(Limit.count_tokens(&embedded) <= 128);
    }
}

#[test]
fn l5_equal_sentences_point_into_their_own_chapters() {
    let document = read("# One\n\nThis matters.\n\n# Two\n\nThis matters.\n");
    assert_eq!(leaf_texts(&document), ["# One\n\nThis matters.", "# Two\n\nThis matters."]);
    assert!(document.tree.leaves[1].span.start > document.text.find("# Two").unwrap() - 1);
    holds(&document);
}

#[test]
fn l6_neighbouring_hits_are_one_passage() {
    let document = read(&long_section("A", 10));
    let mut config = settings(2000);
    config.merge.enabled = false;
    let (context, _) = context(&[&document], &[(0, 4), (0, 5), (0, 7)], &config);
    let leaves = &document.tree.leaves;
    let found: Vec<Span> = context.passages.iter().map(|passage| passage.span).collect();
    assert_eq!(found, [leaves[4].span.hull(leaves[5].span), leaves[7].span]);
}

#[test]
fn l6_passages_of_one_document_can_be_had_in_its_order() {
    let document = read(&long_section("A", 10));
    let leaf = |at: usize| document.tree.leaves[at].span;
    let first = leaf(4).hull(leaf(5));
    for (order, expected) in
        [(Order::Evidence, [leaf(7), first]), (Order::Document, [first, leaf(7)])]
    {
        let mut config = settings(2000);
        config.merge.enabled = false;
        config.pack.order = order;
        let (context, _) = context(&[&document], &[(0, 7), (0, 5), (0, 4)], &config);
        let found: Vec<Span> = context.passages.iter().map(|passage| passage.span).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn l6_siblings_of_neighbouring_hits_are_one_passage() {
    let document = read_with(&long_section("A", 10), &["leaf.levels=[]"], None);
    let mut config = settings(3000);
    config.merge.enabled = false;
    config.expansion = Expansion::Siblings(1);
    let (context, _) = context(&[&document], &[(0, 4), (0, 5), (0, 7)], &config);
    let leaves = &document.tree.leaves;
    let found: Vec<Span> = context.passages.iter().map(|passage| passage.span).collect();
    assert_eq!(found, [leaves[3].span.hull(leaves[8].span)]);
    assert_eq!(
        (context.passages[0].kind, context.passages[0].evidence.len()),
        (ItemKind::Siblings, 3)
    );
}

#[test]
fn siblings_stay_inside_the_parent() {
    let document =
        read_with(&(long_section("A", 4) + &long_section("B", 4)), &["leaf.levels=[]"], None);
    let mut config = settings(3000);
    config.merge.enabled = false;
    for (n, from) in [(1, 2), (2, 1), (9, 0)] {
        config.expansion = Expansion::Siblings(n);
        let (context, _) = context(&[&document], &[(0, 3)], &config);
        let leaves = &document.tree.leaves;
        assert_eq!(context.passages[0].span, leaves[from].span.hull(leaves[3].span));
    }
}

#[test]
fn l15_a_window_of_sentences_is_never_one_short() {
    let words = ["Ant.", "Bee.", "Cow.", "Dog.", "Hen.", "Fox.", "Cat.", "Pig.", "Owl."];
    let text = format!("{}\n", words.join(" "));
    let document = read_with(&text, &["leaf.target=2", "leaf.levels=[]"], None);
    assert_eq!(leaf_texts(&document), words);
    let mut config = settings(3000);
    config.merge.enabled = false;
    for n in 1..=3 {
        config.expansion = Expansion::Sentences(n);
        for at in 0..words.len() {
            let (context, _) = context(&[&document], &[(0, at)], &config);
            let window = words[at.saturating_sub(n)..(at + n + 1).min(words.len())].join(" ");
            assert_eq!(text_of(&document, &context), [window], "{n} around {at}");
        }
    }
}

#[test]
fn a_window_stays_in_its_top_level_section() {
    let page = "Before all. It has two sentences.\n\n# A\n\nOne is here. Two is here.\n\n# B\n\nThree is here.\n";
    let document = read(page);
    assert_eq!(document.tree.leaves.len(), 3);
    let mut config = settings(3000);
    config.merge.enabled = false;
    for expansion in [Expansion::Sentences(5), Expansion::Tokens(50)] {
        config.expansion = expansion;
        for at in 0..3 {
            let (context, _) = context(&[&document], &[(0, at)], &config);
            assert_eq!(context.passages[0].span, document.tree.leaves[at].span);
            assert_eq!(context.passages[0].kind, ItemKind::Leaf, "nothing was added");
        }
    }
}

#[test]
fn a_window_of_tokens_ends_at_words() {
    let document = read_with(&long_section("A", 6), &["leaf.levels=[]"], None);
    let mut config = settings(3000);
    config.merge.enabled = false;
    for n in [1, 2, 7, 30] {
        config.expansion = Expansion::Tokens(n);
        let (context, _) = context(&[&document], &[(0, 2)], &config);
        let (span, leaf) = (context.passages[0].span, document.tree.leaves[2].span);
        for side in [Span::new(span.start, leaf.start), Span::new(leaf.end, span.end)] {
            let tokens = document.offsets.tokens.count(side);
            assert!(tokens <= n + 1 && tokens + 2 >= n.min(3), "{n}: {tokens}");
        }
        let (before, behind) = (Span::new(0, span.start), Span::new(span.end, document.text.len()));
        assert!(text(&document, before).ends_with(char::is_whitespace));
        assert!(text(&document, behind).starts_with(char::is_whitespace));
    }
}

#[test]
fn auto_is_the_parent_or_the_neighbours() {
    let document =
        read_with(&(long_section("A", 3) + &long_section("B", 9)), &["leaf.levels=[]"], None);
    let mut config = settings(3000);
    config.merge.enabled = false;
    config.expansion = Expansion::Auto;
    let (context, _) = context(&[&document], &[(0, 1), (0, 6)], &config);
    let kinds: Vec<_> = context.passages.iter().map(|passage| passage.kind).collect();
    assert_eq!(kinds, [ItemKind::Parent, ItemKind::Siblings]);
    let leaves = &document.tree.leaves;
    assert_eq!(context.passages[0].span, leaves[0].span.hull(leaves[2].span));
    assert_eq!(context.passages[1].span, leaves[5].span.hull(leaves[7].span));
}

#[test]
fn the_order_of_documents_changes_nothing_but_the_order() {
    let pages = [long_section("A", 6), long_section("B", 6)].map(|page| read(&page));
    let documents: Vec<&Document> = pages.iter().collect();
    let mut config = settings(1200);
    config.merge.enabled = false;
    let found = [(1, 4), (0, 5), (1, 2), (0, 0)];
    let (by_evidence, _) = context(&documents, &found, &config);
    config.pack.order = Order::Document;
    let (by_document, _) = context(&documents, &found, &config);
    let places = |context: &umbel::core::pack::Context| {
        context.passages.iter().map(|p| (p.doc.0, p.span)).collect::<Vec<_>>()
    };
    assert_eq!(places(&by_evidence).len(), 4);
    let leaf = |doc: usize, at: usize| (doc as u64, documents[doc].tree.leaves[at].span);
    assert_eq!(places(&by_document), [leaf(1, 2), leaf(1, 4), leaf(0, 0), leaf(0, 5)]);
    assert_eq!(by_evidence.tokens, by_document.tokens);
}

#[test]
fn a_reserve_and_what_stands_around_passages_are_counted() {
    let document = read(&long_section("A", 6));
    let mut config = settings(1000);
    config.merge.enabled = false;
    let found = hits(&[&document], &[(0, 0), (0, 2), (0, 4)]);
    let run = |config: &umbel::core::trace::AssembleConfig, frame: usize| {
        let frame = move |_, _: &Document, _| frame;
        assemble(found.clone(), &library(&[&document]), config, Some(&frame)).0
    };
    let plain = run(&config, 0);
    assert_eq!(plain.passages.len(), 3);
    let framed = run(&config, 10);
    assert_eq!(framed.tokens, plain.tokens + 30);
    config.pack.budget_tokens = plain.tokens + 29;
    assert_eq!(run(&config, 10).passages.len(), 2);
    config.pack.budget_tokens = plain.tokens;
    assert_eq!(run(&config, 0).passages.len(), 3);
    config.pack.reserve_tokens = 1;
    assert_eq!(run(&config, 0).passages.len(), 2);
}

#[test]
fn what_comes_in_with_something_else_is_not_dropped() {
    // By itself a word inside a line has two edges to pay for; the whole line has none.
    let document = read_with("Ant. Bee. Cow.\n", &["leaf.target=2", "leaf.levels=[]"], None);
    let library = library(&[&document]);
    let list = collapse(hits(&[&document], &[(0, 1), (0, 0)]), 9);
    let unmerged = MergeConfig { enabled: false, ..MergeConfig::default() };
    let (mut items, _) = merge(&list, &library, &unmerged, 9, 100);
    let line = Span::new(0, document.text.trim_end().len());
    let packed = |items: &[Item]| pack(items, &library, settings(7).pack, None);
    assert_eq!(packed(&items).dropped.len(), 1);
    (items[1].kind, items[1].span) = (ItemKind::Window, line);
    let context = packed(&items);
    assert_eq!((context.passages[0].span, context.passages[0].evidence.len()), (line, 2));
    assert!(context.dropped.is_empty(), "{:?}", context.dropped);
}

#[test]
fn p7_distinct_clusters_are_examined_before_the_list_is_cut() {
    let dominant = read(&long_section("A", 9));
    let others: Vec<Document> =
        (0..12).map(|n| read(&format!("# T{n}\n\n{}\n", prose(n, 20)))).collect();
    let mut documents = vec![&dominant];
    documents.extend(&others);
    let mut found: Vec<(usize, usize)> = (0..9).map(|at| (0, at)).collect();
    found.extend((1..=12).map(|doc| (doc, 0)));
    let mut hits = hits(&documents, &found);
    // The nine leaves of one section say the same.
    let cluster = hits[0].record.cluster;
    hits.iter_mut().take(9).for_each(|hit| hit.record.cluster = cluster);
    let mut config = settings(10_000);
    config.depth = 10;
    let (_, trace) = assemble(hits, &library(&documents), &config, None);
    assert_eq!((trace.counts.children_retrieved, trace.examined, trace.shortfall), (10, 18, 0));
}

#[test]
fn d10_two_questions_with_the_same_hit_give_no_span_twice() {
    let document = read_with(&long_section("A", 8), &["leaf.levels=[]"], None);
    let list = |leg, found: &[(usize, usize)]| umbel::core::hit::RankedList {
        leg,
        weight: 1.0,
        leaves: hits(&[&document], found)
            .into_iter()
            .map(|hit| (hit.record, hit.scores.fused))
            .collect(),
    };
    let lists = [
        list(umbel::core::hit::Leg::Dense, &[(0, 3), (0, 4)]),
        list(umbel::core::hit::Leg::Dense, &[(0, 3), (0, 5)]),
    ];
    let fused = umbel::core::hit::fuse(&lists, umbel::core::hit::Fusion::Convex);
    let mut config = settings(3000);
    config.merge.enabled = false;
    for expansion in [Expansion::Siblings(1), Expansion::Sentences(2), Expansion::Parent] {
        config.expansion = expansion;
        let (context, trace) = assemble(fused.clone(), &library(&[&document]), &config, None);
        super::support::keeps_its_promises(&[&document], &context, 3000);
        assert_eq!(
            (trace.counts.children_retrieved, context.passages.len()),
            (3, 1),
            "{expansion}"
        );
    }
}

#[test]
fn l7_from_a_leaf_to_the_root_and_back_each_node_is_met_once() {
    let text: String = (1..=5).flat_map(|level| [(level, 'a'), (level, 'b')]).fold(
        String::new(),
        |text, (level, name)| {
            text + &format!("{} {level}{name}\n\n{}\n\n", "#".repeat(level), prose(level, 180))
        },
    );
    let document = read(&text);
    holds(&document);
    let tree = &document.tree;
    let mut met = BTreeSet::new();
    let mut below = vec![0];
    while let Some(at) = below.pop() {
        assert!(met.insert(at), "node {at} is met twice");
        below.extend(&tree.nodes[at as usize].children);
    }
    assert_eq!(met.len(), tree.nodes.len());
    for leaf in &tree.leaves {
        let path: Vec<u32> = tree.ancestors(leaf.node).collect();
        assert_eq!(path.last(), Some(&0));
        assert_eq!(path.iter().collect::<BTreeSet<_>>().len(), path.len());
    }
}

#[test]
fn p1_one_section_that_matches_often_is_one_parent() {
    let long = read(&(long_section("A", 5) + &long_section("Z", 5)));
    let short: Vec<Document> = (0..5)
        .map(|n| read(&(long_section(&format!("S{n}"), 2) + &long_section("T", 2))))
        .collect();
    let mut documents = vec![&long];
    documents.extend(&short);
    let mut found: Vec<(usize, usize)> = (0..5).map(|ordinal| (0, ordinal)).collect();
    found.extend((1..=5).map(|doc| (doc, 0)));
    let mut config = settings(100_000);
    config.expansion = Expansion::Parent;
    config.pack.limit = Some(5);
    for enabled in [true, false] {
        config.merge.enabled = enabled;
        let (context, _) = context(&documents, &found, &config);
        let parents: BTreeSet<_> = context.passages.iter().map(|p| (p.doc, p.node)).collect();
        assert_eq!((context.passages.len(), parents.len()), (5, 5));
        assert_eq!(context.passages[0].evidence.len(), 5);
    }
}

#[test]
fn p3_thirty_children_stay_within_the_budget() {
    let documents: Vec<Document> =
        (0..30).map(|n| read(&(prose(n, 190) + "\n\n" + &prose(n + 1, 190)))).collect();
    let documents: Vec<&Document> = documents.iter().collect();
    let found: Vec<(usize, usize)> = (0..30).map(|doc| (doc, 0)).collect();
    let (context, _) = context(&documents, &found, &settings(1600));
    assert!(context.tokens > 1300 && context.tokens <= 1600, "{}", context.tokens);
    assert!(context.dropped.iter().all(|dropped| dropped.reason == DropReason::Budget));
}

#[test]
fn p5_sections_of_6000_tokens_are_cropped_around_their_evidence() {
    let text: String = (0..4).map(|n| long_section(&format!("S{n}"), 40)).collect();
    let document = read_with(&text, &["leaf.levels=[]"], None);
    let section =
        |n: u32| document.tree.leaves.iter().position(|leaf| leaf.top_level == Some(n)).unwrap();
    let found: Vec<(usize, usize)> = (0..4).map(|n| (0, section(n) + 9 * n as usize + 3)).collect();
    for budget in [4000, 1000, 100] {
        let mut config = settings(budget);
        config.expansion = Expansion::Parent;
        let (context, trace) = context(&[&document], &found, &config);
        assert_eq!(trace.crops.len(), 4);
        for (crop, &(_, ordinal)) in trace.crops.iter().zip(&found) {
            assert!(crop.tokens > 6000, "{}", crop.tokens);
            assert!(document.offsets.tokens.count(crop.window) <= 800);
            let leaf = document.tree.leaves[ordinal].span;
            assert!(crop.window.contains(leaf));
            let delivered = context.passages.iter().any(|p| p.span.contains(leaf));
            let dropped = context.dropped.iter().any(|dropped| dropped.span == crop.window);
            assert!(delivered != dropped, "budget {budget}");
        }
        assert!(context.passages.iter().all(|p| p.kind == ItemKind::Cropped));
    }
}

#[test]
fn a_window_near_the_end_of_its_parent_holds_the_match() {
    let document = read_with(&long_section("A", 20), &["leaf.levels=[]"], None);
    let last = document.tree.leaves.len() - 1;
    for ordinal in [0, last / 2, last] {
        let mut config = settings(4000);
        config.expansion = Expansion::Parent;
        // A section that is the whole document is the root: give it a neighbour, so that it is one below.
        let two =
            read_with(&(long_section("A", 20) + &long_section("B", 2)), &["leaf.levels=[]"], None);
        let (context, _) = context(&[&two], &[(0, ordinal)], &config);
        let passage = &context.passages[0];
        assert!(two.offsets.tokens.count(passage.span) <= 800);
        assert!(two.offsets.tokens.count(passage.span) > 600, "{}", passage.tokens);
        assert!(passage.span.contains(two.tree.leaves[ordinal].span));
    }
}

#[test]
fn c1_the_notifications_page_gives_two_leaves() {
    let page = "## Notifications\n\n### Email\n\nMail alerts are sent unless you turn them off.\n\n### SMS\n\nTexts go to a number that was confirmed.\n\n### Webhook\n\nEach workspace sets its own hook.\n\n## Billing\n\n### Invoices\n\nA bill is made at the end of each month.\n";
    let document = read(page);
    assert_eq!(paths(&document), [["Notifications"], ["Billing"]]);
    let leaves = leaf_texts(&document);
    assert!(leaves[0].starts_with("## Notifications") && leaves[0].ends_with("its own hook."));
    assert!(leaves[1].starts_with("## Billing") && leaves[1].ends_with("each month."));
    for heading in ["### Email", "### SMS", "### Webhook"] {
        assert!(leaves[0].contains(heading));
    }
    assert!(leaves[1].contains("### Invoices"));
    // Split at every heading, the page has six chunks.
    assert_eq!(document.tree.unmerged_tokens.len(), 6);
    holds(&document);
}

#[test]
fn c2_thirty_short_sections_merge_inside_three() {
    let page: String = (0..3)
        .map(|top| {
            let below: String = (0..9)
                .map(|n| format!("### Topic {top} {n}\n\nOne short line about {n}.\n\n"))
                .collect();
            format!("## Area {top}\n\nWhat this area is about.\n\n{below}")
        })
        .collect();
    let document = read(&page);
    assert_eq!(document.tree.leaves.len(), 3);
    holds(&document);
    let small = read_with(&page, &["leaf.target=60"], None);
    assert!((9..=12).contains(&small.tree.leaves.len()), "{}", small.tree.leaves.len());
    holds(&small);
}

#[test]
fn c3_the_last_small_subsection_stays_with_its_parent() {
    let document = read("## A\n\n### tiny\n\nA line.\n\n## B\n\nAnother line.\n");
    assert_eq!(leaf_texts(&document), ["## A\n\n### tiny\n\nA line.", "## B\n\nAnother line."]);
}

#[test]
fn c4_a_large_target_does_not_join_top_level_sections() {
    let document =
        read_with("## A\n\nOne line.\n\n## B\n\nOne line.\n", &["leaf.target=10000"], None);
    assert_eq!(leaf_texts(&document), ["## A\n\nOne line.", "## B\n\nOne line."]);
}

/// An embedder whose tokens are bytes in fours.
struct Fours(usize);
impl EmbedLimit for Fours {
    fn max_tokens(&self) -> usize {
        self.0
    }
    fn count_tokens(&self, text: &str) -> usize {
        text.len().div_ceil(4) + 2
    }
}

/// An embedder whose tokens are those of the budget, and two special ones.
struct Budget(usize);
impl EmbedLimit for Budget {
    fn max_tokens(&self) -> usize {
        self.0
    }
    fn count_tokens(&self, text: &str) -> usize {
        OpenAiTokens::o200k().count(text) + 2
    }
}

#[test]
fn c6_sections_of_the_target_minus_one_stay_within_the_hard_limit() {
    let counter = OpenAiTokens::o200k();
    for n_sections in 2..7 {
        let section = |n: usize, words: usize| format!("### Part {n}\n\n{}", prose(n, words));
        let page = |last: usize| {
            let words = |n: usize| if n + 1 == n_sections { last } else { 199 / n_sections - 12 };
            (0..n_sections).map(|n| section(n, words(n))).collect::<Vec<_>>()
        };
        let sum =
            |sections: &[String]| sections.iter().map(|text| counter.count(text)).sum::<usize>();
        let sections = (1..199).map(page).find(|sections| sum(sections) == 199).unwrap();
        let text = format!("# T\n\n## A\n\n{}\n", sections.join("\n\n"));
        // From what takes the whole with its headings to what takes the target alone.
        for limit in [256, 210, 202, 200] {
            let limit = Budget(limit);
            let document = read_with(&text, &[], Some(&limit));
            holds(&document);
            for leaf in &document.tree.leaves {
                assert!(leaf.tokens <= 200);
                let embedded = embedded_text(&document.text, &document.title, &document.tree, leaf);
                assert!(limit.count_tokens(&embedded) <= limit.max_tokens(), "{embedded}");
            }
        }
    }
}

#[test]
fn c7_every_visible_byte_is_in_a_leaf() {
    let heading = vec!["wide"; 400].join(" ");
    for page in [
        "# A\n## B\n### C\n#### D\nOne line.\n".to_owned(),
        format!("# A\n\n## {heading}\n\nBody.\n"),
        format!("# {heading}\n"),
    ] {
        let document = read(&page);
        holds(&document);
        let visible = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
        assert_eq!(leaf_texts(&document).into_iter().map(visible).sum::<usize>(), visible(&page));
    }
}

#[test]
fn c9_no_leaf_ends_with_the_next_heading() {
    let page: String = (0..6)
        .map(|n| {
            format!(
                "## List {n}\n{}\n",
                (0..12).map(|k| format!("- {}", prose(k, 12))).collect::<Vec<_>>().join("\n")
            )
        })
        .collect();
    let document = read(&page);
    holds(&document);
    for leaf in leaf_texts(&document) {
        assert!(!leaf.lines().last().unwrap().starts_with('#'), "{leaf}");
    }
}

#[test]
fn c11_odd_markdown_slices_as_it_stands() {
    let page =
        "# Title ##\n\n\tcode here\n\tand here\n\nFirst\u{a0}paragraph.\n\nSecond paragraph.\n";
    let document = read(page);
    assert_eq!(document.tree.headings[0].text, "Title");
    assert_eq!(leaf_texts(&document), [page.trim_end()]);
    holds(&document);
}

#[test]
fn c13_text_before_the_first_heading_has_an_empty_path() {
    let document = read("A preface.\n\n## A\n\nText.\n");
    assert_eq!(paths(&document), [vec![], vec!["A".to_owned()]]);
    assert_eq!(leaf_texts(&document)[0], "A preface.");
}

#[test]
fn c14_table_parts_carry_the_header() {
    let rows: String = (0..20).map(|n| format!("| key{n} | {} |\n", prose(n, 8))).collect();
    let page = format!("## Keys\n\n| key | meaning |\n|-----|---------|\n{rows}");
    let document = read_with(&page, &["leaf.target=80"], None);
    holds(&document);
    assert!(document.tree.leaves.len() > 2);
    for leaf in &document.tree.leaves[1..] {
        let prefix: Vec<&str> = leaf.prefix.iter().map(|&span| text(&document, span)).collect();
        assert_eq!(prefix, ["| key | meaning |\n|-----|---------|"]);
        assert!(text(&document, leaf.span).starts_with("| key"));
    }
    let (context, _) = context(&[&document], &[(0, 2)], &settings(500));
    assert!(context.passages[0].rendered(&document).starts_with("| key | meaning |"));
}

#[test]
fn c18_a_section_that_fits_is_not_cut() {
    for words in [40, 120, 180] {
        let page = format!("# T\n\n## A\n\n{}\n\n## B\n\n{}\n", prose(1, words), prose(2, words));
        // Exactly the size of the larger section, and one token less; the same for the embedder's limit.
        let target = OpenAiTokens::o200k().count(&page).max(1);
        let whole = read_with(&page, &[&format!("leaf.target={target}")], None);
        let largest = whole.tree.leaves.iter().map(|leaf| leaf.tokens).max().unwrap();
        let embedded = |d: &Document| {
            d.tree
                .leaves
                .iter()
                .map(|l| Fours(0).count_tokens(&embedded_text(&d.text, &d.title, &d.tree, l)))
                .max()
                .unwrap()
        };
        let limit = embedded(&whole);
        for (short, leaves) in [(0, 2), (1, 3)] {
            let target = format!("leaf.target={}", largest - short);
            let document = read_with(&page, &[&target], None);
            assert!(
                document.tree.leaves.len() >= leaves
                    && (short > 0 || document.tree.leaves.len() == 2),
                "{words}"
            );
        }
        let fits = read_with(&page, &["leaf.target=5000"], Some(&Fours(limit)));
        assert_eq!(fits.tree.leaves.len(), 2, "{words}");
        assert!(fits.warnings.is_empty());
    }
}
