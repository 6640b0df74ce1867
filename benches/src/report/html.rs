//! Writes the report as a self-contained HTML page, suitable for phones and for printing.

use anyhow::Result;

use super::tables::escape;
use super::{Run, figures, gaps, tables};

const STYLE: &str = "
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 62rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.5rem } h3 { font-size: 1rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap }
th:first-child, td:first-child { text-align: left } .texts td { white-space: normal; text-align: left }
svg { max-width: 100%; height: auto } figure { margin: 1.5rem 0; break-inside: avoid }
@media print { body { max-width: none; font-size: 11px } details { break-inside: avoid } }
";

/// Returns the introduction of the report, which explains the numbers.
pub(super) fn explanation(run: &Run) -> String {
    let checked = "Each subject runs in its own process, and they take turns. Times are the lowest of many runs after \
        the first. Only programs whose values were checked are listed: against the reference evaluator or, where that \
        is too slow, against JAX. Memory is the peak of one run beyond inputs and program, as counted by the \
        allocator or, for the peers, by the system in pages. Compare figures only as ratios within one run. \
        Everything is a release build.";
    format!("{}. {checked}", run.machine)
}

/// Returns the title of a workload, followed by its sizes.
fn full_title(workload: &str) -> String {
    let (name, sizes) = workload.split_once(' ').unwrap_or((workload, ""));
    let title = crate::generality::named(name).map_or(name, |workload| workload.title);
    format!("{title} ({name}), {sizes}")
}

pub(super) fn page(run: &Run) -> Result<String> {
    let mut body =
        format!("<h1>Benchmarks of funcify {}</h1><p>{}</p>", escape(&run.version), escape(&explanation(run)));
    body += &tables::overview(run).html();
    body += &format!("<h2>The largest gaps</h2><p>{}</p><div class=\"texts\">", escape(gaps::ABOUT));
    body += &gaps::table(run).html();
    body += "</div>";
    let figures = figures::all(run)?;
    if !figures.is_empty() {
        body += "<h2>Growth</h2>";
    }
    for figure in figures {
        let (title, summary) = (escape(figure.title), escape(&figure.summary));
        body += &format!("<figure><h3>{title}</h3>{}<figcaption>{summary}</figcaption></figure>", figure.svg);
    }
    for workload in run.workloads() {
        body += &format!("<h2>{}</h2>", escape(&full_title(workload)));
        for phase in ["forward", "train"] {
            if let Some(table) = tables::details(run, workload, phase) {
                body += &format!("<h3>{phase}</h3>{}", table.html());
            }
        }
    }
    body += &format!(
        "<h2>Subjects that did not run</h2><div class=\"texts\">{}</div>",
        tables::missing_subjects(run).html()
    );
    let viewport = "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">";
    let head = format!("<meta charset=\"utf-8\">{viewport}<title>funcify: benchmarks</title><style>{STYLE}</style>");
    Ok(format!("<!doctype html><html lang=\"en\"><head>{head}</head><body>{body}</body></html>\n"))
}
