//! The library's Markdown → that of each page.
//!
//! Invariant: each line is on one page, but for the delimiter of a table that goes on over pages.

use super::lines::Line;
use std::collections::{BTreeMap, BTreeSet};

/// The Markdown of each page: the library writes a comment where a page with text starts.
pub(super) fn split_pages(markdown: &str, n_pages: usize) -> Vec<String> {
    let mut pages = vec![String::new(); n_pages];
    let mut current = 0;
    for line in markdown.lines() {
        let marked = line
            .strip_prefix("<!-- Page ")
            .and_then(|rest| rest.strip_suffix(" -->"))
            .and_then(|number| number.parse::<usize>().ok());
        match marked {
            Some(number) if current < number && number <= n_pages => current = number,
            _ => {
                if let Some(page) = pages.get_mut(current.max(1) - 1) {
                    page.push_str(line);
                    page.push('\n');
                }
            }
        }
    }
    pages
}

/// Whether a page has no text.
pub(super) fn is_blank(page: &str) -> bool {
    page.chars().all(char::is_whitespace)
}

/// Moves tables to their pages: the library does not mark a page that holds nothing else, and joins its table to the last.
pub(super) fn place_tables(pages: &mut [String], lines: &BTreeMap<u32, Vec<Line>>) {
    let vocabulary = |at: usize| -> BTreeSet<&str> {
        let lines = lines.get(&(at as u32 + 1)).into_iter().flatten();
        lines.flat_map(|line| line.text.split_whitespace()).collect()
    };
    let is_unmarked = |pages: &[String], at: usize| {
        pages.get(at).is_some_and(|page| is_blank(page)) && lines.contains_key(&(at as u32 + 1))
    };
    for first in 0..pages.len() {
        let n_unmarked = (first + 1..pages.len()).take_while(|&at| is_unmarked(pages, at)).count();
        if n_unmarked == 0 || is_blank(&pages[first]) {
            continue;
        }
        let vocabularies: Vec<_> = (first..=first + n_unmarked).map(vocabulary).collect();
        let text = std::mem::take(&mut pages[first]);
        let mut at = 0;
        let mut delimiter = None;
        for line in text.lines() {
            let is_row = line.starts_with('|');
            let is_delimiter = is_row && line.chars().all(|c| "|-: ".contains(c));
            let mut moved = false;
            if is_row && !is_delimiter {
                let known = |page: usize| {
                    let words = line.split(|c: char| c == '|' || c.is_whitespace());
                    words.filter(|word| vocabularies[page].contains(word)).count()
                };
                let best = (at..=n_unmarked).rev().max_by_key(|&page| known(page)).unwrap_or(at);
                moved = best != at;
                at = best;
            }
            let page = &mut pages[first + at];
            page.push_str(line);
            page.push('\n');
            if is_delimiter {
                delimiter = Some(line);
            } else if let Some(delimiter) = delimiter.filter(|_| moved) {
                page.push_str(delimiter);
                page.push('\n');
            } else if !is_row {
                delimiter = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::Style;
    use super::*;

    #[test]
    fn tables_are_placed_on_pages_that_hold_nothing_else() {
        let line = |text: &str| Line {
            text: text.to_owned(),
            style: Style::Plain,
            size: 10.0,
            end: 0.0,
            y: 0.0,
        };
        let lines = BTreeMap::from([
            (1, vec![line("They cost:"), line("Part Price"), line("Seal 4")]),
            (2, vec![line("Pump 90"), line("Valve 70")]),
            (3, vec![line("Year Sum"), line("2023 8")]),
        ]);
        let text = "They cost:\n\n|Part|Price|\n|---|---|\n|Seal|4|\n|Pump|90|\n|Valve|70|\n\n|Year|Sum|\n|---|---|\n|2023|8|\n";
        let mut pages = [text.to_owned(), String::new(), String::new(), "The end.\n".to_owned()];
        place_tables(&mut pages, &lines);
        assert_eq!(
            pages,
            [
                "They cost:\n\n|Part|Price|\n|---|---|\n|Seal|4|\n",
                "|Pump|90|\n|---|---|\n|Valve|70|\n\n",
                "|Year|Sum|\n|---|---|\n|2023|8|\n",
                "The end.\n"
            ]
        );
    }
}
