//! Table element → rows of cells.
//!
//! Invariant: each row is as wide as the first, and a table of layout is none.

use super::content::Kept;
use super::page::Page;

/// Cells of a table with more text than this hold a layout, not a value.
const MAX_CELL_BYTES: usize = 2_000;

/// A table as rows of cells, each as wide as the first.
pub(super) struct Grid {
    /// The cells of each row; 0 where none is.
    pub(super) rows: Vec<Vec<usize>>,
    /// Whether the first row names the columns.
    pub(super) has_head: bool,
    pub(super) caption: Option<usize>,
}

/// The table's cells, if it is one of values: two columns or more, and no blocks in it that a cell cannot hold.
pub(super) fn grid(page: &Page, kept: &Kept, table: usize) -> Option<Grid> {
    if matches!(page.attribute(table, "role"), Some("presentation" | "none")) {
        return None;
    }
    let mut rows: Vec<Vec<(usize, usize, usize)>> = Vec::new();
    let (mut caption, mut head_rows) = (None, 0);
    let mut at = table + 1;
    while at < page.nodes[table].end {
        let node = &page.nodes[at];
        if node.hidden {
            at = node.end;
            continue;
        }
        match page.name(at) {
            "table" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "pre" | "blockquote" | "ol"
            | "form" | "details" | "hr" => return None,
            "caption" => {
                caption = Some(at);
                at = node.end;
                continue;
            }
            "tr" => {
                rows.push(Vec::new());
                head_rows += usize::from(page.name(node.parent) == "thead");
            }
            "td" | "th" => {
                let span = |name| {
                    page.attribute(at, name)
                        .and_then(|n| n.trim().parse::<usize>().ok())
                        .unwrap_or(1)
                        .clamp(1, 1_000)
                };
                let text = kept.text(page, at);
                if text.len() > MAX_CELL_BYTES || paragraphs(page, at) > 3 {
                    return None;
                }
                rows.last_mut()?.push((at, span("colspan"), span("rowspan")));
            }
            _ => {}
        }
        at += 1;
    }
    let head_is_stated = head_rows > 0
        || rows.first().is_some_and(|row| row.iter().all(|&(at, ..)| page.name(at) == "th"));
    let starts_with_name =
        rows.first().and_then(|row| row.first()).is_some_and(|&(at, ..)| page.name(at) == "th");
    let rows = spread(&rows)?;
    let width = rows.first()?.len();
    if width < 2 || (rows.len() < 2 && !head_is_stated) {
        return None;
    }
    Some(Grid { rows, has_head: head_is_stated || !starts_with_name, caption })
}

/// How many paragraphs and items stand in a cell.
fn paragraphs(page: &Page, cell: usize) -> usize {
    page.inside(cell).filter(|&at| matches!(page.name(at), "p" | "li" | "dd")).count()
}

/// Repeats merged cells in every place that they cover. `None` for a table that would grow too much.
fn spread(rows: &[Vec<(usize, usize, usize)>]) -> Option<Vec<Vec<usize>>> {
    let count: usize = rows.iter().map(Vec::len).sum();
    let most = count * 4 + 64;
    let mut places = 0;
    let mut grid: Vec<Vec<usize>> = Vec::new();
    // What each column still owes to a cell above: the cell and its rows to go.
    let mut owed: Vec<(usize, usize)> = Vec::new();
    for row in rows {
        let mut cells: Vec<usize> = Vec::new();
        let mut waiting = row.iter();
        loop {
            let column = cells.len();
            if let Some((cell, left)) = owed.get_mut(column).filter(|(_, left)| *left > 0) {
                *left -= 1;
                cells.push(*cell);
            } else if let Some(&(cell, columns, rows)) = waiting.next() {
                for _ in 0..columns {
                    if owed.get(cells.len()).is_some_and(|(_, left)| *left > 0) {
                        break;
                    }
                    if owed.len() <= cells.len() {
                        owed.resize(cells.len() + 1, (0, 0));
                    }
                    owed[cells.len()] = (cell, rows - 1);
                    cells.push(cell);
                    places += 1;
                    if places > most {
                        return None;
                    }
                }
            } else if column < owed.len() && owed.iter().skip(column).any(|(_, left)| *left > 0) {
                cells.push(0);
            } else {
                break;
            }
        }
        places += cells.len();
        if places > most * 4 {
            return None;
        }
        if !row.is_empty() {
            grid.push(cells);
        }
    }
    let width = grid.iter().map(Vec::len).max()?;
    if width * grid.len() > most * 4 {
        return None;
    }
    for row in &mut grid {
        row.resize(width, 0);
    }
    Some(grid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_cells_stand_in_every_place_that_they_cover() {
        let check = |rows: &[&[(usize, usize, usize)]], expected: Option<&[&[usize]]>| {
            let rows: Vec<_> = rows.iter().map(|row| row.to_vec()).collect();
            let expected =
                expected.map(|rows| rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>());
            assert_eq!(spread(&rows), expected);
        };
        check(&[&[(1, 1, 1), (2, 1, 1)], &[(3, 1, 1)]], Some(&[&[1, 2], &[3, 0]]));
        check(&[&[(1, 2, 1), (2, 1, 1)]], Some(&[&[1, 1, 2]]));
        check(&[&[(1, 1, 2), (2, 1, 1)], &[(3, 1, 1)]], Some(&[&[1, 2], &[1, 3]]));
        check(&[&[(1, 1, 1), (2, 1, 2)], &[(3, 1, 1)]], Some(&[&[1, 2], &[3, 2]]));
        check(&[&[(1, 1000, 1000)]], None);
        check(&[], None);
    }
}
