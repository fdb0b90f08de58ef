//! Leaf building in numbers, beside a peer: `cargo xtask bench leaves`, `cargo xtask bench peers`.
//!
//! A workspace of its own: it is built without the index and the models, and what the peer depends on stays out of the product.
//! Each row gives the median of several runs, and its spread; compare rows of one run only.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use umbel::config::Config;
use umbel::core::document::Document;
use umbel::core::leaf::{LeafConfig, Source, build};
use umbel::core::measure::{CharacterOffsets, Ruler};
use umbel::core::outline::{Format, parse};
use umbel::core::span::Span;
use umbel::read::{self, Draft};
use umbel::tokens::OpenAiTokens;

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let benches: [(&str, fn()); 2] = [("leaves", leaves), ("peers", peers)];
    for (name, bench) in benches {
        if name.contains(&filter) {
            bench();
        }
    }
}

fn row(name: &str, value: &str) {
    println!("{name:<58} {value}");
}

/// The median and the extremes of `n` runs.
fn timed(n: usize, mut run: impl FnMut()) -> (Duration, Duration, Duration) {
    let mut times: Vec<Duration> = (0..n)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times[n / 2], times[0], times[n - 1])
}

fn rate(amount: f64, (median, best, worst): (Duration, Duration, Duration), unit: &str) -> String {
    let per = |time: Duration| amount / time.as_secs_f64();
    format!("{:.1} {unit} ({:.1} to {:.1})", per(median), per(worst), per(best))
}

/// Three public Markdown corpora, by name; none where the shared test data is not beside the repository.
fn corpora() -> Vec<(&'static str, Vec<String>)> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let names = ["rust-book", "sprawling-sourcegraph-handbook", "tight-redis-doc"];
    let found = names.map(|name| (name, pages(shared.join(name).join("corpus"))));
    found.into_iter().filter(|(_, pages)| !pages.is_empty()).collect()
}

/// The Markdown pages below a folder, in order of their paths; none where there is no folder.
fn pages(folder: PathBuf) -> Vec<String> {
    let mut pages = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs_err::read_dir(folder) else { continue };
        let mut entries: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.extend(fs_err::read_to_string(path).ok());
            }
        }
    }
    pages
}

fn samples() -> Vec<String> {
    pages(Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples"))
}

/// The samples, again and again, up to about 8 MB.
fn corpus() -> Vec<String> {
    let pages = samples();
    let once: usize = pages.iter().map(String::len).sum();
    let times = (8_000_000 / once).max(1);
    pages.iter().cycle().take(pages.len() * times).cloned().collect()
}

/// A page as it is taken in.
fn document(page: &str, config: &Config, counter: &OpenAiTokens) -> Document {
    read::document(
        Draft::of_text(page.to_owned(), Format::Markdown),
        None,
        "t",
        config,
        counter,
        None,
    )
}

fn leaves() {
    let samples = ("samples", corpus());
    for (name, pages) in std::iter::once(samples).chain(corpora()) {
        leaves_of(name, &pages);
    }
}

fn leaves_of(name: &str, pages: &[String]) {
    let megabytes = megabytes(pages);
    let characters = LeafConfig { target: 800, levels: vec![8192, 2048], ..LeafConfig::default() };
    let parsed = timed(5, || {
        for page in pages {
            let body = Span::new(0, page.len());
            let outline = parse(page, body, Format::Markdown);
            let source = Source { text: page, body, title: "t", outline: &outline };
            let ruler = Ruler::Characters(CharacterOffsets::of(page));
            black_box(build(source, &ruler, &ruler, &characters, None));
        }
    });
    row(&format!("{name}: parse and merge, in characters"), &rate(megabytes, parsed, "MB/s"));
    let outlines = timed(5, || {
        for page in pages {
            black_box(parse(page, Span::new(0, page.len()), Format::Markdown));
        }
    });
    row("  of which the outline", &rate(megabytes, outlines, "MB/s"));
    let (config, counter) = (Config::default(), OpenAiTokens::o200k());
    let whole = timed(5, || {
        for page in pages {
            black_box(document(page, &config, &counter));
        }
    });
    row("  whole leaf building, tokens and sentences", &rate(megabytes, whole, "MB/s"));
    let tokens = timed(5, || {
        for page in pages {
            black_box(umbel::core::offsets::TokenOffsets::of(page, &counter));
        }
    });
    row("  of which the tokens", &rate(megabytes, tokens, "MB/s"));
}

fn megabytes(pages: &[String]) -> f64 {
    pages.iter().map(String::len).sum::<usize>() as f64 / 1e6
}

/// Counts as the budget does.
struct Sizer(&'static bpe_openai::Tokenizer);

impl text_splitter::ChunkSizer for Sizer {
    fn size(&self, chunk: &str) -> usize {
        self.0.count(chunk)
    }
}

/// Whole leaf building beside the fastest peer splitter: same tokenizer, same target, offsets included.
fn peers() {
    let (config, counter) = (Config::default(), OpenAiTokens::o200k());
    for (name, pages) in corpora() {
        let megabytes = megabytes(&pages);
        let ours = timed(3, || {
            for page in &pages {
                black_box(document(page, &config, &counter));
            }
        });
        let theirs = timed(3, || {
            for page in &pages {
                let sizer = Sizer(bpe_openai::o200k_base());
                let chunks = text_splitter::ChunkConfig::new(200).with_sizer(sizer);
                let splitter = text_splitter::MarkdownSplitter::new(chunks);
                black_box(splitter.chunk_indices(page).count());
            }
        });
        row(&format!("{name}: whole leaf building"), &rate(megabytes, ours, "MB/s"));
        row("  text-splitter, same tokenizer and target", &rate(megabytes, theirs, "MB/s"));
        let times = theirs.0.as_secs_f64() / ours.0.as_secs_f64();
        row("  times as fast", &format!("{times:.1}"));
    }
}
