//! Reproduces the figures on the growth of build time, running time and memory in PyTorch's paper on control flow.
//!
//! These are Figures 1, 2 and 5 of "Control flow operators in PyTorch" (2025).

use anyhow::Result;
use plotters::prelude::*;

use super::{Run, bytes, time};
use crate::rows::Measurement;

/// A figure: a measured quantity of each subject on one workload, plotted against one of the workload's sizes.
struct Figure {
    title: &'static str,
    workload: &'static str,
    /// The letter of the size on the horizontal axis.
    along: &'static str,
    phase: &'static str,
    measure: Measure,
}

#[derive(Clone, Copy, PartialEq)]
enum Measure {
    Time,
    Memory,
}

impl Measure {
    fn of(self, row: &Measurement) -> Option<f64> {
        match self {
            Measure::Time => Some(row.low_s),
            Measure::Memory => row.peak_bytes.map(|bytes| bytes as f64),
        }
    }

    fn text(self, number: f64) -> String {
        match self {
            Measure::Time => time(number),
            Measure::Memory => bytes(number as u64),
        }
    }
}

const fn figure(
    title: &'static str,
    workload: &'static str,
    along: &'static str,
    phase: &'static str,
    measure: Measure,
) -> Figure {
    Figure { title, workload, along, phase, measure }
}

const FIGURES: &[Figure] = &[
    figure("Chunked loss: building the training program", "chunked_loss", "C", "make-train", Measure::Time),
    figure("Chunked loss: memory of a training step", "chunked_loss", "C", "train", Measure::Memory),
    figure("S5: building the program", "s5", "T", "make", Measure::Time),
    figure("S5: a forward pass", "s5", "T", "forward", Measure::Time),
    figure("S5: a training step", "s5", "T", "train", Measure::Time),
    figure("RNN: building the program", "rnn", "T", "make", Measure::Time),
    figure("RNN: memory of a training step", "rnn", "T", "train", Measure::Memory),
];

/// The points of one subject, sorted by size.
struct Series {
    subject: String,
    points: Vec<(f64, f64)>,
}

/// A figure that is ready for the page: its title, drawing and summary.
pub(super) struct RenderedFigure {
    pub(super) title: &'static str,
    pub(super) svg: String,
    pub(super) summary: String,
}

/// Draws all figures for which the run has at least two sizes.
pub(super) fn all(run: &Run) -> Result<Vec<RenderedFigure>> {
    let mut drawn = Vec::new();
    for figure in FIGURES {
        let series = series(run, figure);
        if !series.is_empty() {
            drawn.push(RenderedFigure {
                title: figure.title,
                svg: draw(figure, &series)?,
                summary: summarise(figure, &series),
            });
        }
    }
    Ok(drawn)
}

/// Removes the size with this letter from a workload's title. Returns the other words of the title, and the size, or
/// `None` if the title has no such size.
fn split<'a>(workload: &'a str, letter: &str) -> Option<(Vec<&'a str>, f64)> {
    let (along, rest): (Vec<&str>, Vec<&str>) =
        workload.split(' ').partition(|word| word.strip_prefix(letter).is_some_and(|rest| rest.starts_with('=')));
    let size = along.first()?.split('=').nth(1)?.parse().ok()?;
    Some((rest, size))
}

/// Groups the workload's sizes into families whose members differ only in the size on the horizontal axis. Returns one
/// series per subject for the largest family. Omits series with fewer than two points.
fn series(run: &Run, figure: &Figure) -> Vec<Series> {
    let rows = run.rows.iter().filter(|row| row.phase == figure.phase);
    let placed = rows.filter_map(|row| {
        let (rest, size) = split(&row.workload, figure.along)?;
        (rest[0] == figure.workload).then_some((rest, size, row))
    });
    let placed: Vec<_> = placed.collect();
    let sizes_of = |family: &Vec<&str>| {
        let mut sizes: Vec<u64> =
            placed.iter().filter(|(rest, ..)| rest == family).map(|(_, size, _)| *size as u64).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.len()
    };
    let Some(family) = placed.iter().map(|(rest, ..)| rest).max_by_key(|family| sizes_of(family)) else {
        return Vec::new();
    };
    let mut series: Vec<Series> = Vec::new();
    for (_, size, row) in placed.iter().filter(|(rest, ..)| rest == family) {
        let Some(number) = figure.measure.of(row).filter(|number| *number > 0.0) else {
            continue;
        };
        match series.iter_mut().find(|each| each.subject == row.subject) {
            Some(each) => each.points.push((*size, number)),
            None => series.push(Series { subject: row.subject.clone(), points: vec![(*size, number)] }),
        }
    }
    for each in &mut series {
        each.points.sort_by(|left, right| left.0.total_cmp(&right.0));
    }
    series.retain(|each| each.points.len() > 1);
    series
}

/// Summarises a figure in two sentences. The first names the best and the worst subject at the largest size. The second
/// says for which subjects the quantity depends on the size.
fn summarise(figure: &Figure, series: &[Series]) -> String {
    let largest = series.iter().filter_map(|each| each.points.last()).map(|point| point.0).fold(0.0, f64::max);
    let mut last: Vec<(&str, f64)> = Vec::new();
    for each in series {
        let point = each.points.last().filter(|point| point.0 == largest);
        last.extend(point.map(|point| (each.subject.as_str(), point.1)));
    }
    last.sort_by(|left, right| left.1.total_cmp(&right.1));
    let (Some(best), Some(worst)) = (last.first(), last.last()) else {
        return String::new();
    };
    let text = |number: f64| figure.measure.text(number);
    let [best, worst] = [best, worst].map(|(subject, amount)| format!("{} of {subject}", text(*amount)));
    let first = format!("At {} = {largest}, the lowest is {best} and the highest {worst}.", figure.along);
    // The slope between the first and last points on a log-log plot: 0 means constant, 1 means linear.
    let slopes = series.iter().filter_map(|each| {
        let (first, last) = (each.points.first()?, each.points.last()?);
        Some((each.subject.as_str(), (last.1 / first.1).ln() / (last.0 / first.0).ln()))
    });
    let flat: Vec<&str> = slopes.filter(|(_, slope)| slope.abs() < 0.1).map(|(subject, _)| subject).collect();
    let second = match flat.len() {
        0 => format!("It depends on {} for all of them.", figure.along),
        count if count == series.len() => format!("It does not depend on {} for any of them.", figure.along),
        _ => format!("It does not depend on {} for {}, but does for the others.", figure.along, flat.join(", ")),
    };
    format!("{first} {second}")
}

fn draw(figure: &Figure, series: &[Series]) -> Result<String> {
    let points = || series.iter().flat_map(|each| &each.points);
    let range = |number: fn(&(f64, f64)) -> f64| {
        let low = points().map(number).fold(f64::INFINITY, f64::min);
        let high = points().map(number).fold(0.0, f64::max);
        low / 1.2..high * 1.2
    };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (760, 420)).into_drawing_area();
        area.fill(&WHITE).map_err(|error| anyhow::anyhow!("{error}"))?;
        let failed = |error: DrawingAreaErrorKind<_>| anyhow::anyhow!("{error}");
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .x_label_area_size(36)
            .y_label_area_size(70)
            .right_y_label_area_size(150)
            .build_cartesian_2d(range(|point| point.0).log_scale(), range(|point| point.1).log_scale())
            .map_err(failed)?;
        let measure = figure.measure;
        chart
            .configure_mesh()
            .x_desc(figure.along)
            .y_label_formatter(&|number| measure.text(*number))
            .x_label_formatter(&|number| format!("{number:.0}"))
            .light_line_style(WHITE)
            .draw()
            .map_err(failed)?;
        for (index, each) in series.iter().enumerate() {
            let color = Palette99::pick(index).to_rgba();
            let line = LineSeries::new(each.points.iter().copied(), color.stroke_width(2));
            let drawn = chart.draw_series(line).map_err(failed)?;
            let key = move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], color.stroke_width(2));
            drawn.label(each.subject.clone()).legend(key);
            let dots = each.points.iter().map(|point| Circle::new(*point, 3, color.filled()));
            chart.draw_series(dots).map_err(failed)?;
        }
        let labels = chart.configure_series_labels();
        { labels }
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .draw()
            .map_err(failed)?;
        area.present().map_err(|error| anyhow::anyhow!("{error}"))?;
    }
    Ok(svg)
}
