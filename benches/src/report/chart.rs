//! Draws the README's chart: the training times of the benchmark table, relative to JAX, on a logarithmic axis.

use std::fmt::Write;

/// The table columns that appear in the chart: the title in the table, the label in the chart, and the colour and
/// radius of the dots.
const CHART_COLUMNS: [(&str, &str, &str, u32); 6] = [
    ("funcify on Burn", "funcify on Burn", "#ffd43b", 3),
    ("funcify on Candle", "funcify on Candle", "#d9480f", 6),
    ("JAX", "JAX", "#1c7ed6", 5),
    ("PyTorch", "PyTorch", "#7048e8", 5),
    ("Candle by hand", "Candle's own loop", "#868e96", 5),
    ("Burn by hand", "Burn's own loop", "#ced4da", 5),
];

/// The ends of the axis, as decimal exponents of the ratio to JAX's time.
const AXIS: [i32; 2] = [-1, 4];
const LEFT: f64 = 310.0;
const WIDTH: f64 = 460.0;
const TOP: u32 = 84;
const ROW: u32 = 22;

/// A training row of the table: the workload, and the ratio to JAX for each column of [`CHART_COLUMNS`].
struct TrainingRow<'a> {
    workload: &'a str,
    ratios: Vec<Option<f64>>,
}

/// Draws the training rows of the table on the benchmarks page. `jax` is the name and version of JAX, for the chart's
/// title.
pub(super) fn draw(page: &str, jax: &str) -> String {
    let rows = rows(page);
    let bottom = TOP + ROW * rows.len() as u32;
    let (width, height) = (LEFT + WIDTH + 30.0, bottom + 44);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"16\" y=\"24\" font-size=\"15\" font-weight=\"bold\">Time of a training step, relative to {jax} \
         (left is faster)</text>\n"
    );
    let mut put = |line: String| writeln!(svg, "{line}").expect("writing to a string never fails");
    let mut x = 16.0;
    for (_, name, colour, radius) in CHART_COLUMNS {
        put(format!("<circle cx=\"{x}\" cy=\"48\" r=\"{radius}\" fill=\"{colour}\"/>"));
        put(format!("<text x=\"{}\" y=\"52\">{name}</text>", x + 10.0));
        x += 30.0 + 6.6 * name.len() as f64;
    }
    for power in AXIS[0]..=AXIS[1] {
        let (x, is_jax) = (place(10f64.powi(power)), power == 0);
        let (colour, thickness) = if is_jax { ("#1c7ed6", 1.5) } else { ("#e9ecef", 1.0) };
        let (top, below) = (TOP - 12, bottom + 16);
        put(format!(
            "<line x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"{colour}\" stroke-width=\"{thickness}\"/>"
        ));
        let label = format!("{} ×", 10f64.powi(power));
        put(format!("<text x=\"{x:.1}\" y=\"{below}\" text-anchor=\"middle\" fill=\"#495057\">{label}</text>"));
    }
    for (index, row) in rows.iter().enumerate() {
        let y = TOP + ROW * index as u32;
        put(format!("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", LEFT - 16.0, y + 4, row.workload));
        // Draw the first columns last, so that their dots are on top.
        for (ratio, (.., colour, radius)) in row.ratios.iter().zip(CHART_COLUMNS).rev() {
            if let Some(ratio) = ratio {
                put(format!("<circle cx=\"{:.1}\" cy=\"{y}\" r=\"{radius}\" fill=\"{colour}\"/>", place(*ratio)));
            }
        }
    }
    svg + "</svg>\n"
}

/// Returns the x coordinate of a ratio in the chart.
fn place(ratio: f64) -> f64 {
    let [low, high] = AXIS.map(f64::from);
    LEFT + WIDTH * ((ratio.log10() - low) / (high - low)).clamp(0.0, 1.0)
}

fn rows(page: &str) -> Vec<TrainingRow<'_>> {
    let mut lines = page.lines().filter(|line| line.starts_with('|')).map(|line| line.split('|').map(str::trim));
    let header: Vec<&str> = lines.find(|cells| cells.clone().any(|cell| cell == "JAX")).into_iter().flatten().collect();
    let columns: Vec<_> = CHART_COLUMNS.iter().map(|shown| header.iter().position(|title| title == &shown.0)).collect();
    let of_training =
        lines.filter_map(|mut cells| Some((cells.clone().nth(1)?.strip_suffix(", train")?, cells.by_ref().collect())));
    let rows = of_training.map(|(workload, cells): (&str, Vec<&str>)| {
        let ratios = CHART_COLUMNS.iter().zip(&columns).map(|((title, ..), column)| {
            let cell = *cells.get((*column)?)?;
            if *title == "JAX" {
                (!cell.is_empty()).then_some(1.0)
            } else {
                cell.split_once('(')?.1.strip_suffix(" ×)")?.parse().ok()
            }
        });
        TrainingRow { workload, ratios: ratios.collect() }
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::super::page::jax;
    use super::*;

    #[test]
    fn ratios_of_training_are_read() {
        let page = "| low | JAX | PyTorch | funcify on Candle |\n|---|--:|--:|--:|\n\
                    | rnn T=1, forward | 1 µs | 2 µs (2.0 ×) | 1 µs (1.0 ×) |\n| rnn T=1, train | 2 µs | | 1 µs (0.5 ×) |\n";
        let rows = rows(page);
        assert_eq!((rows.len(), rows[0].workload), (1, "rnn T=1"));
        assert_eq!(rows[0].ratios, [None, Some(0.5), Some(1.0), None, None, None]);
        assert!(draw(page, "JAX 0.12").contains("relative to JAX 0.12"));
    }

    /// Checks that the chart matches the table. `FUNCIFY_BLESS=1` redraws the chart.
    #[test]
    fn the_chart_is_current() {
        let page = include_str!("../../../docs/benchmarks.md");
        assert!(page.contains(&format!("({}, ", jax())), "the table was made with another version than {}", jax());
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/training-time.svg");
        if std::env::var_os("FUNCIFY_BLESS").is_some() {
            std::fs::write(path, draw(page, &jax())).expect("the chart can be written");
        }
        assert_eq!(draw(page, &jax()), std::fs::read_to_string(path).expect("there is a chart"));
    }
}
