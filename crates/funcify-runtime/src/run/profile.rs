//! Profiles calls: records the time and the result size of each instruction, and aggregates them by op, by source line
//! and by step.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::{Duration, Instant};

use super::interpret::Run;
use super::program::Instruction;
use super::*;

/// The profile of one call to a function ([`Function::profile`](crate::Function::profile)).
///
/// The profiler waits for the device after each instruction, so that the time is attributed to the right kernel. A
/// profiled call is therefore slower than a normal one. If the tensors are in host memory, the overhead is about 0.1
/// microseconds per instruction. On other devices, the overhead is the time spent waiting.
///
/// ```
/// use funcify::dispatch::{Function, Reference};
/// use funcify::{Graph, HostTensor, scan};
///
/// let sum = Graph::build("sum", |g| {
///     let [start, xs] = [g.input("start", "f32[]"), g.input("xs", "f32[T]")];
///     scan(start, xs, |sum, x| (sum + x, ())).0
/// })?;
/// let sum = Function::compile(&sum, &Reference)?;
/// let (_, profile) = sum.profile_host(&[0f32.into(), [1f32, 2.0, 3.0].into()])?;
/// let additions = profile.by_op().into_iter().find(|share| share.name == "add").unwrap();
/// assert_eq!(additions.count, 3);
/// assert_eq!(profile.by_step().len(), 3);
/// println!("{profile}"); // or `profile.trace_json()`, for a browser
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Profile {
    /// The time from the start of the first instruction to the end of the last one.
    pub total: Duration,
    /// The instructions that ran. Nested instructions come first: a loop comes after its steps.
    pub events: Vec<Event>,
}

/// The execution of an instruction.
///
/// ```
/// use funcify::dispatch::{Function, Reference};
/// use funcify::{Graph, HostTensor};
///
/// let twice = Function::compile(&Graph::build("twice", |g| g.input("x", "f32[2]") * 2.0)?, &Reference)?;
/// let (_, profile) = twice.profile_host(&[[1f32, 2.0].into()])?;
/// let event = profile.events.iter().find(|event| event.op == "mul").unwrap();
/// assert_eq!((event.bytes, event.depth, event.step), (8, 0, None));
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// The op, such as `matmul` or `scan`. When an unrolled loop reads or stacks rows, this is the op of the loop.
    pub op: String,
    /// The user's source line.
    pub site: Site,
    /// The number of enclosing instructions, such as loops and switches.
    pub depth: usize,
    /// The index of the step, counted from 0, in the innermost enclosing loop that runs natively. `None` outside of
    /// such loops.
    pub step: Option<usize>,
    /// The start time, relative to the start of the call.
    pub start: Duration,
    /// The elapsed time, including nested instructions.
    pub time: Duration,
    /// The elapsed time, excluding nested instructions.
    pub own: Duration,
    /// The size of the results in bytes.
    pub bytes: usize,
}

/// The totals of a group of events: a row of a profile's table.
///
/// ```
/// use funcify::dispatch::{Function, Reference};
/// use funcify::{Graph, HostTensor};
///
/// let twice = Function::compile(&Graph::build("twice", |g| g.input("x", "f32[2]") * 2.0)?, &Reference)?;
/// let (_, profile) = twice.profile_host(&[[1f32, 2.0].into()])?;
/// let shares = profile.by_line();
/// assert!(shares[0].name.contains(".rs"));
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Share {
    /// The op, the source line or the step that the events of the group share.
    pub name: String,
    /// The number of events in the group.
    pub count: usize,
    /// The total time of the events, excluding instructions nested in them.
    pub time: Duration,
    /// The total size of the events' results in bytes.
    pub bytes: usize,
}

impl Profile {
    /// Aggregates the events by op. The group with the longest time comes first.
    pub fn by_op(&self) -> Vec<Share> {
        longest_first(self.shares(|event| Some(event.op.clone()), String::clone))
    }

    /// Aggregates the events by source line. The group with the longest time comes first.
    pub fn by_line(&self) -> Vec<Share> {
        longest_first(self.shares(|event| Some(event.site.to_string()), String::clone))
    }

    /// Aggregates the events by the step of their innermost loop, in step order. The events in step `i` of all loops
    /// form one group.
    pub fn by_step(&self) -> Vec<Share> {
        self.shares(|event| event.step, |step| format!("step {step}"))
    }

    /// Aggregates the events by key, in key order. Skips events without a key.
    fn shares<K: Ord>(&self, key: impl Fn(&Event) -> Option<K>, name: impl Fn(&K) -> String) -> Vec<Share> {
        let mut shares: BTreeMap<K, Share> = BTreeMap::new();
        for event in &self.events {
            let Some(key) = key(event) else { continue };
            let nothing = Share { name: name(&key), count: 0, time: Duration::ZERO, bytes: 0 };
            let share = shares.entry(key).or_insert(nothing);
            share.count += 1;
            share.time += event.own;
            share.bytes += event.bytes;
        }
        shares.into_values().collect()
    }

    /// Formats the events as JSON in the Trace Event Format, for a browser's trace viewer (`chrome://tracing`,
    /// <https://ui.perfetto.dev>).
    pub fn trace_json(&self) -> String {
        let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
        let mut json = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        for (index, event) in self.events.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let step = event.step.map_or(String::new(), |step| format!(",\"step\":{step}"));
            let (name, line) = (escaped(&event.op), escaped(&event.site.to_string()));
            // Writing to a string cannot fail.
            let _ = write!(
                json,
                "{comma}\n{{\"name\":\"{name}\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":{:.3},\"dur\":{:.3},\
                 \"args\":{{\"line\":\"{line}\",\"bytes\":{}{step}}}}}",
                micros(event.start),
                micros(event.time),
                event.bytes,
            );
        }
        json + "\n]}\n"
    }
}

/// Escapes a string for JSON. Does not add quotes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => escaped.extend(['\\', character]),
            character if character < ' ' => _ = write!(escaped, "\\u{:04x}", u32::from(character)),
            character => escaped.push(character),
        }
    }
    escaped
}

fn longest_first(mut shares: Vec<Share>) -> Vec<Share> {
    shares.sort_by_key(|share| std::cmp::Reverse(share.time));
    shares
}

/// The maximum number of rows that are printed per table.
const PRINTED: usize = 12;

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} instructions in {:?}", self.events.len(), self.total)?;
        table(f, "op", &self.by_op())?;
        table(f, "line", &self.by_line())?;
        let steps = self.by_step();
        if steps.is_empty() { Ok(()) } else { table(f, "step, the longest first", &longest_first(steps)) }
    }
}

fn table(f: &mut fmt::Formatter<'_>, title: &str, shares: &[Share]) -> fmt::Result {
    let all: Duration = shares.iter().map(|share| share.time).sum();
    let percent = |share: &Share| 100.0 * share.time.as_secs_f64() / all.as_secs_f64().max(1e-12);
    writeln!(f, "\n{:>12} {:>5} {:>9} {:>14}  {title}", "time", "%", "count", "bytes")?;
    for share in shares.iter().take(PRINTED) {
        let time = format!("{:?}", share.time);
        writeln!(f, "{time:>12} {:>5.1} {:>9} {:>14}  {}", percent(share), share.count, share.bytes, share.name)?;
    }
    match shares.len().saturating_sub(PRINTED) {
        0 => Ok(()),
        more => writeln!(f, "{more:>29} more"),
    }
}

/// The events recorded so far in a call, and the instructions that are still running.
pub(crate) struct Profiler {
    began: Instant,
    open: Vec<Open>,
    events: Vec<Event>,
}

/// An instruction that is running.
struct Open {
    start: Instant,
    inside: Duration,
    /// The index of the current step, if the instruction is a loop.
    step: Option<usize>,
}

impl Profiler {
    pub(crate) fn new() -> Self {
        Profiler { began: Instant::now(), open: Vec::new(), events: Vec::new() }
    }

    /// Records that the innermost running loop begins a step.
    pub(crate) fn note_step(&mut self, step: usize) {
        self.open.last_mut().expect("a step belongs to a running loop instruction").step = Some(step);
    }

    pub(crate) fn finish(self) -> Profile {
        Profile { total: self.began.elapsed(), events: self.events }
    }

    /// Records the start of an instruction.
    pub(crate) fn open(&mut self) {
        self.open.push(Open { start: Instant::now(), inside: Duration::ZERO, step: None });
    }

    fn close(&mut self, op: String, site: Site, bytes: usize) {
        let open = self.open.pop().expect("an instruction begins before it ends");
        let time = open.start.elapsed();
        if let Some(around) = self.open.last_mut() {
            around.inside += time;
        }
        self.events.push(Event {
            op,
            site,
            depth: self.open.len(),
            step: self.open.iter().rev().find_map(|around| around.step),
            start: open.start - self.began,
            time,
            own: time.saturating_sub(open.inside),
            bytes,
        });
    }
}

impl<B: Backend> Run<'_, B> {
    /// Waits for the device and records the end of an instruction, if the call is profiled.
    #[inline]
    pub(crate) fn note_profiled(&mut self, instruction: &Instruction<B>, results: &Tensors<B::Tensor>) {
        let Some(profiler) = &mut self.profiler else { return };
        self.backend.wait();
        let typed = results.iter().zip(instruction.action.output_types());
        let bytes = typed.map(|(tensor, ty)| self.backend.shape(tensor).iter().product::<usize>() * ty.dtype.size());
        let place = instruction.action.place();
        profiler.close(place.op, place.site, bytes.sum());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{CompileOptions, Function, LoopStrategy, Reference};
    use funcify_core::{Graph, HostTensor, scan, while_loop};

    /// Builds a program with a scan of 3 steps, followed by a while loop that runs 2 steps on this test's inputs.
    fn program() -> Graph {
        Graph::build("program", |g| {
            let (xs, w) = (g.input("xs", "f32[3,2]"), g.input("w", "f32[2]"));
            let (last, ys) = scan(w, xs, |c, x| (c * w + x, c));
            (while_loop(last, |c| c.sum(0).lt(100.0), |c| c * 4.0), ys)
        })
        .unwrap()
    }

    fn inputs() -> [Arc<HostTensor>; 2] {
        [Arc::new([[1f32, 1.], [1., 1.], [1., 1.]].into()), Arc::new([1f32, 2.].into())]
    }

    #[test]
    fn every_instruction_is_seen_with_its_step_and_its_bytes() {
        let options = CompileOptions { strategy: LoopStrategy::Native, ..CompileOptions::default() };
        let function = Function::compile_with(&program(), &Reference, options).unwrap();
        let (results, profile) = function.profile(&inputs()).unwrap();
        assert_eq!(results, function.call(&inputs()).unwrap());
        let of = |op: &str| profile.events.iter().filter(|event| event.op == op).collect::<Vec<_>>();
        let adds = of("add");
        assert_eq!(adds.iter().map(|event| event.step).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
        assert!(adds.iter().all(|event| event.depth == 1 && event.bytes == 8));
        // The scan returns a trace of 3 rows and the last row: (3 + 1) * 2 elements of 4 bytes each.
        let scans = of("scan");
        assert_eq!((scans.len(), scans[0].bytes, scans[0].depth, scans[0].step), (1, 32, 0, None));
        assert!(scans[0].own <= scans[0].time && scans[0].time <= profile.total);
        assert!(adds.iter().all(|event| event.start >= scans[0].start));
        assert_eq!(of("while")[0].bytes, 8);
        assert_eq!(of("reduce").len(), of("while").len() + 1, "the condition ran once more than the step");
    }

    #[test]
    fn tables_sum_to_the_events_and_the_trace_has_them_all() {
        let function = Function::compile(&program(), &Reference).unwrap();
        let (_, profile) = function.profile(&inputs()).unwrap();
        for shares in [profile.by_op(), profile.by_line()] {
            assert_eq!(shares.iter().map(|share| share.count).sum::<usize>(), profile.events.len());
            assert!(shares.is_sorted_by(|left, right| left.time >= right.time));
        }
        let steps = profile.by_step();
        assert_eq!(steps[0].name, "step 0");
        assert!(profile.by_line().iter().any(|share| share.name.contains("profile.rs")));
        let trace = profile.trace_json();
        assert_eq!(trace.matches("\"ph\":\"X\"").count(), profile.events.len());
        assert_eq!(trace.matches('{').count(), trace.matches('}').count());
        let text = profile.to_string();
        assert!(text.contains(&format!("{} instructions in", profile.events.len())), "{text}");
    }
}
