//! Numbers → a chart in SVG that takes its colours and its type from the page around it.
//!
//! Invariant: the same numbers give the same bytes.

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::fmt::Display;
use std::ops::Range;

/// Width of all charts, in units of the drawing.
const WIDTH: u32 = 720;
const TYPE: f64 = 15.0;
/// Height of a dot's row, and of the space above each group of them.
const ROW: f64 = 24.0;
const ABOVE_GROUP: f64 = 14.0;

/// Colours that stand for those of the page: text, lines of the grid, the background, and one for each series.
const INK: RGBColor = RGBColor(1, 11, 201);
const GRID: RGBColor = RGBColor(1, 11, 202);
const PAPER: RGBColor = RGBColor(1, 11, 203);
const SERIES: [RGBColor; 6] = [
    RGBColor(1, 11, 210),
    RGBColor(1, 11, 211),
    RGBColor(1, 11, 212),
    RGBColor(1, 11, 213),
    RGBColor(1, 11, 214),
    RGBColor(1, 11, 215),
];

/// A value and where the true one plausibly lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Value {
    pub(super) at: f64,
    pub(super) between: Option<(f64, f64)>,
}

/// Values below each other under a name, each of the series of a number.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) values: Vec<(usize, Option<Value>)>,
}

/// A point of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mark {
    pub(super) x: f64,
    pub(super) y: Value,
    /// Whether it is filled.
    pub(super) strong: bool,
}

/// A line of the series of a number.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) series: usize,
    pub(super) marks: Vec<Mark>,
}

/// What an axis is of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axes<'a> {
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    /// What the largest value of the vertical one is at the most: 100 for per cent.
    pub(super) most: Option<f64>,
    /// Whether the vertical one starts at 0.
    pub(super) from_zero: bool,
}

type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;
type Plot<'a, 's> = ChartContext<'a, SVGBackend<'s>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// What is drawn upon, with room for what stands to the left of it.
fn plot<'a, 's>(
    root: &'a Area<'s>,
    left: u32,
    x: Range<f64>,
    y: Range<f64>,
) -> anyhow::Result<Plot<'a, 's>> {
    ChartBuilder::on(root)
        .margin(8)
        .margin_right(28)
        .set_label_area_size(LabelAreaPosition::Left, left)
        .set_label_area_size(LabelAreaPosition::Bottom, 48)
        .build_cartesian_2d(x, y)
        .map_err(failed)
}

impl Axes<'_> {
    /// The axes with about so many labels, and the grid of the one that values are read from: the vertical one, if it has
    /// labels.
    fn draw(
        &self,
        plot: &mut Plot<'_, '_>,
        x_labels: usize,
        y_labels: usize,
    ) -> anyhow::Result<()> {
        let mut mesh = plot.configure_mesh();
        if y_labels == 0 {
            mesh.disable_y_mesh().disable_y_axis();
        } else {
            mesh.disable_x_mesh().y_desc(self.y);
        }
        mesh.x_desc(self.x)
            .x_labels(x_labels)
            .y_labels(y_labels)
            .x_label_formatter(&plain)
            .y_label_formatter(&plain)
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(words())
            .draw()
            .map_err(failed)
    }
}

/// Dots with whiskers, a row each.
pub(super) fn dots(groups: &[Group], unit: &str, most: Option<f64>) -> anyhow::Result<String> {
    let values =
        groups.iter().flat_map(|group| &group.values).filter_map(|(_, value)| value.as_ref());
    let (low, high) = range(values.flat_map(ends), most, false);
    let rows: usize = groups.iter().map(|group| group.values.len()).sum();
    let above = ABOVE_GROUP * groups.len() as f64;
    let tall = ROW * rows as f64 + above;
    draw(tall as u32 + 66, |root| {
        let mut chart = plot(root, 150, low..high, -tall..0.0)?;
        let across = Axes { x: unit, y: "", most, from_zero: false };
        across.draw(&mut chart, 8, 0)?;
        let mut y = 0.0;
        for group in groups {
            y -= ABOVE_GROUP;
            let middle = y - ROW * group.values.len() as f64 / 2.0;
            let (_, at) = chart.backend_coord(&(low, middle));
            root.draw(&Text::new(group.name.clone(), (10, at - 7), words())).map_err(failed)?;
            for (series, value) in &group.values {
                y -= ROW;
                let Some(value) = value else { continue };
                let y = y + ROW / 2.0;
                let colour = colour(*series);
                if let Some((from, to)) = value.between {
                    let whisker =
                        PathElement::new(vec![(from, y), (to, y)], colour.stroke_width(2));
                    chart.draw_series([whisker]).map_err(failed)?;
                }
                chart
                    .draw_series([Circle::new((value.at, y), 6, colour.filled())])
                    .map_err(failed)?;
            }
        }
        Ok(())
    })
}

/// Lines with marks, and whiskers where they are known.
pub(super) fn lines(lines: &[Line], axes: Axes<'_>) -> anyhow::Result<String> {
    let marks = || lines.iter().flat_map(|line| &line.marks);
    let across = range(marks().map(|mark| mark.x), None, false);
    let up = range(marks().flat_map(|mark| ends(&mark.y)), axes.most, axes.from_zero);
    draw(340, |root| {
        let mut chart = plot(root, 72, across.0..across.1, up.0..up.1)?;
        axes.draw(&mut chart, 8, 6)?;
        for line in lines {
            let colour = colour(line.series);
            let path = line.marks.iter().map(|mark| (mark.x, mark.y.at));
            chart.draw_series(LineSeries::new(path, colour.stroke_width(2))).map_err(failed)?;
            for Mark { x, y, strong } in &line.marks {
                if let Some((low, high)) = y.between {
                    let whisker =
                        PathElement::new(vec![(*x, low), (*x, high)], colour.stroke_width(1));
                    chart.draw_series([whisker]).map_err(failed)?;
                }
                let within = if *strong { colour } else { PAPER };
                let rim = Circle::new((*x, y.at), 6, colour.filled());
                let disc = Circle::new((*x, y.at), 4, within.filled());
                chart.draw_series([rim, disc]).map_err(failed)?;
            }
        }
        Ok(())
    })
}

/// Bars beside each other for each class, one a series.
pub(super) fn bars(classes: &[(String, Vec<f64>)], axes: Axes<'_>) -> anyhow::Result<String> {
    let up = range(classes.iter().flat_map(|(_, values)| values.iter().copied()), None, true);
    let names: Vec<&str> = classes.iter().map(|(name, _)| name.as_str()).collect();
    draw(300, |root| {
        let mut chart = plot(root, 72, 0.0..classes.len().max(1) as f64, up.0..up.1)?;
        axes.draw(&mut chart, 0, 6)?;
        for (at, (_, values)) in classes.iter().enumerate() {
            let wide = 0.8 / values.len().max(1) as f64;
            for (series, value) in values.iter().enumerate() {
                let left = at as f64 + 0.1 + wide * series as f64;
                let corners = [(left, 0.0), (left + wide * 0.94, *value)];
                chart
                    .draw_series([Rectangle::new(corners, colour(series).filled())])
                    .map_err(failed)?;
            }
        }
        for (at, name) in names.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(at as f64 + 0.5, 0.0));
            // Letters are half as wide as they are high, about.
            let half = (name.chars().count() as f64 * TYPE / 4.0) as i32;
            root.draw(&Text::new(*name, (x - half, y + 6), words())).map_err(failed)?;
        }
        Ok(())
    })
}

/// The name of a series' colour in the page's style sheet.
pub(super) fn colour_name(series: usize) -> String {
    format!("var(--series-{})", series % SERIES.len())
}

fn colour(series: usize) -> RGBColor {
    SERIES.get(series % SERIES.len()).copied().unwrap_or(INK)
}

fn words() -> TextStyle<'static> {
    ("sans-serif", TYPE).into_font().color(&INK)
}

fn ends(value: &Value) -> Vec<f64> {
    let (low, high) = value.between.unwrap_or((value.at, value.at));
    vec![low, value.at, high]
}

/// A range that holds all values, with some air; never empty.
fn range(values: impl Iterator<Item = f64>, most: Option<f64>, from_zero: bool) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return (0.0, most.unwrap_or(1.0));
    }
    let air = ((high - low) * 0.06).max(high.abs() * 0.01).max(0.01);
    // No figure is below 0, and none of a share above 100 per cent: no axis goes there.
    let low = if from_zero { 0.0 } else { (low - air).max(0.0) };
    let high = high + air;
    (low, most.map_or(high, |most| high.min(most).max(low + air)))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "an axis hands over a reference")]
fn plain(value: &f64) -> String {
    // As many decimals as it takes: steps of an axis are round.
    let rounded = (value * 100.0).round() / 100.0;
    rounded.to_string()
}

fn failed(error: impl Display) -> anyhow::Error {
    anyhow!("a chart was not drawn: {error}")
}

/// What is drawn, with the colours of the page.
fn draw(
    height: u32,
    drawing: impl FnOnce(&Area<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        drawing(&root)?;
        root.present().map_err(failed)?;
    }
    let hex = |RGBColor(r, g, b): RGBColor| format!("#{r:02X}{g:02X}{b:02X}");
    let named = [(INK, "var(--ink)"), (GRID, "var(--grid)"), (PAPER, "var(--paper)")];
    for (colour, name) in named {
        svg = svg.replace(&hex(colour), name);
    }
    for (series, colour) in SERIES.into_iter().enumerate() {
        svg = svg.replace(&hex(colour), &colour_name(series));
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(at: f64) -> Value {
        Value { at, between: Some((at - 1.0, at + 1.0)) }
    }

    #[test]
    fn charts_take_the_colours_of_the_page() {
        let group = |name: &str| Group {
            name: name.to_owned(),
            values: vec![(0, Some(value(50.0))), (1, None), (2, Some(value(60.0)))],
        };
        let svg = dots(&[group("fired <b>"), group("pooled")], "per cent", Some(100.0)).unwrap();
        assert!(svg.contains("var(--ink)") && svg.contains("var(--series-2)"), "{svg}");
        assert!(svg.contains("fired &lt;b&gt;") && !svg.contains("#010B"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 4);
    }

    #[test]
    fn nothing_to_draw_is_an_empty_chart() {
        let axes = Axes { x: "tokens", y: "recall", most: Some(100.0), from_zero: false };
        for svg in [dots(&[], "", None), lines(&[], axes), bars(&[], axes)] {
            assert!(svg.unwrap().starts_with("<svg"));
        }
        let one = Line { series: 0, marks: vec![Mark { x: 1.0, y: value(100.0), strong: true }] };
        let flat = [Group {
            name: "all".to_owned(),
            values: vec![(0, Some(Value { at: 0.0, between: None }))],
        }];
        assert!(lines(&[one], axes).unwrap().contains("<circle"));
        assert!(dots(&flat, "per cent", Some(100.0)).unwrap().contains("<circle"));
        assert!(bars(&[("0–31".to_owned(), vec![0.0])], axes).unwrap().contains("0–31"));
    }

    #[test]
    fn an_axis_holds_all_and_leaves_what_can_be() {
        let check = |values: &[f64], most: Option<f64>, from_zero: bool, expected: (f64, f64)| {
            let got = range(values.iter().copied(), most, from_zero);
            assert!(
                (got.0 - expected.0).abs() < 1e-9 && (got.1 - expected.1).abs() < 1e-9,
                "{got:?}"
            );
        };
        check(&[], Some(100.0), false, (0.0, 100.0));
        check(&[50.0, 150.0], None, false, (44.0, 156.0));
        check(&[50.0, 150.0], None, true, (0.0, 156.0));
        check(&[1.0, 99.0], Some(100.0), false, (0.0, 100.0));
        check(&[0.0], None, true, (0.0, 0.01));
        check(&[100.0], Some(100.0), false, (99.0, 100.0));
        check(&[f64::NAN, 2.0], None, true, (0.0, 2.02));
    }
}
