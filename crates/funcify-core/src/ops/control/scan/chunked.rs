//! `map` with options: processes rows one at a time, or batches chunks of several rows with `vmap`.

use super::build::{move_axis_to_front, repeat, step_count, try_repeat};
use super::*;
use crate::graph::at_site;
use crate::tree;
use crate::vmap::{inline, trace_lane};

/// The options of [`map_with`]: the number of rows in a chunk, the axis of the rows, and the checkpoint policy.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, MapOptions, map_with};
///
/// let sums = Graph::build("sums", |g| {
///     map_with(MapOptions::new().axis(1).chunk(4), g.input("x", "f32[3,T]"), |column| column.sum(..))
/// })?;
/// assert_eq!(sums.output_type(0).to_string(), "f32[T]");
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MapOptions {
    chunk: Option<usize>,
    axis: i64,
    policy: Option<CheckpointPolicy>,
}

impl MapOptions {
    /// Returns the default options: one row at a time, over axis 0.
    pub fn new() -> Self {
        MapOptions::default()
    }

    /// Processes the rows in chunks of `rows` rows. This is faster than processing one row at a time, and needs less
    /// memory than processing all rows at once. The chunk size does not change the results.
    pub fn chunk(mut self, rows: usize) -> Self {
        self.chunk = Some(rows);
        self
    }

    /// Sets the axis along which the loop reads rows from each leaf. A negative axis counts from the end. The results
    /// are always stacked along axis 0.
    pub fn axis(mut self, axis: i64) -> Self {
        self.axis = axis;
        self
    }

    /// Sets the checkpoint policy, which selects the residuals that the loop saves for the backward pass: see
    /// [`ScanOptions::policy`].
    pub fn policy(mut self, policy: CheckpointPolicy) -> Self {
        self.policy = Some(policy);
        self
    }
}

/// Runs a [`map`](super::map) with the given options.
///
/// If a chunk size is set, the body is batched by the rules of [`vmap`](crate::vmap()), and a loop runs over the
/// chunks. Leftover rows form a smaller chunk. If the number of rows is symbolic, the number of chunks is computed at
/// run time, and an incomplete last chunk is instead padded with copies of the last row. The body then runs on the last
/// row more than once.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, MapOptions, evaluate, map_with};
///
/// let squares = Graph::build("squares", |g| {
///     map_with(MapOptions::new().chunk(2), g.input("xs", "f32[3]"), |x| x.square())
/// })?;
/// assert_eq!(evaluate(&squares, &[HostTensor::from([1f32, 2., 3.])])?[0], HostTensor::from([1f32, 4., 9.]));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn map_with<X: Tree, Y: Tree>(options: MapOptions, xs: X, body: impl FnOnce(X) -> Y) -> Y {
    let at = Place::new("scan", Site::caller());
    let mut of_loop = ScanOptions::new();
    if let Some(policy) = options.policy {
        of_loop = of_loop.policy(policy);
    }
    let scan = of_loop.clone().axis(options.axis);
    let Some(chunk) = options.chunk else {
        return repeat(&at, scan, None, (), xs, |(), x| ((), body(x), None)).1;
    };
    if chunk == 0 {
        fail("map", at.site, &[], |at| {
            at.mismatch("the chunk", "1 row or more", "0 rows", "leave `chunk` out to map one row after the other")
        });
    }
    let leaves = tree::leaves(&xs, "x");
    let moved: Vec<(String, Value)> = leaves
        .into_iter()
        .map(|(name, value)| (name.clone(), move_axis_to_front(&at, &name, value, options.axis)))
        .collect();
    let rows = step_count(&at, &scan, &moved);
    let values: Vec<Value> = moved.iter().map(|(_, value)| *value).collect();
    let lanes: Vec<Batched> = values.iter().map(|value| Batched::mapped(*value)).collect();
    let (closed, ys) = trace_lane(&at, &lanes, &xs, body);
    let names = tree::leaves(&ys, "ys");
    let results = closed.and_then(|closed| {
        let run = |rows: &[Value], count: &Dim| -> Result<Vec<Value>, Failed> {
            let captured = closed.captures.iter().map(|value| Batched::unmapped(*value));
            let inputs: Vec<Batched> = rows.iter().map(|value| Batched::mapped(*value)).chain(captured).collect();
            let results = inline(&closed.graph, count, &inputs)?.into_iter();
            Ok(results.map(|result| result.materialized(count)).collect())
        };
        at_site(at.site, || match rows.constant() {
            Some(count) => known_chunks(&at, of_loop, &values, count.max(0) as usize, chunk, run),
            None => counted_chunks(&at, of_loop, &values, &rows, chunk, run),
        })
    });
    results.iter().flatten().zip(names).for_each(|(result, (name, _))| _ = result.named(&name));
    tree::rebuild_or_failed(&ys, results)
}

/// Runs a loop over the complete chunks, and then runs the body on the remaining rows as a smaller chunk.
fn known_chunks(
    at: &Place,
    of_loop: ScanOptions,
    xs: &[Value],
    rows: usize,
    chunk: usize,
    run: impl Fn(&[Value], &Dim) -> Result<Vec<Value>, Failed>,
) -> Result<Vec<Value>, Failed> {
    let (full, left) = (rows / chunk, rows % chunk);
    let whole = full * chunk;
    let part =
        |start: usize, end: usize| xs.iter().map(|x| x.slice(0, start as i64..end as i64)).collect::<Vec<Value>>();
    let mut parts: Vec<Vec<Value>> = Vec::new();
    if full > 0 || left == 0 {
        let split = |x: Value| {
            let row = x.shape().without(0);
            x.reshape(row.with_leading(chunk).with_leading(full))
        };
        let chunks: Vec<Value> = part(0, whole).into_iter().map(split).collect();
        let body = |(), rows: Vec<Value>| Ok(((), run(&rows, &Dim::from(chunk))?, None));
        let ((), ys) = try_repeat::<_, _, _, Failed>(at, of_loop, None, (), chunks, body)?;
        parts.push(ys.into_iter().map(|y| join_chunks(y, &Dim::from(chunk))).collect::<Result<_, _>>()?);
    }
    if left > 0 {
        parts.push(run(&part(whole, rows), &Dim::from(left))?);
    }
    Ok(match parts.as_slice() {
        [whole, left] => whole.iter().zip(left).map(|(whole, left)| concat(&[*whole, *left], 0)).collect(),
        _ => parts.pop().expect("one of the two conditions above holds, so a part was added"),
    })
}

/// Runs a loop over the chunks. The program computes the number of chunks at run time. In an incomplete last chunk,
/// indices past the last row are clamped to the last row.
fn counted_chunks(
    at: &Place,
    of_loop: ScanOptions,
    xs: &[Value],
    rows: &Dim,
    chunk: usize,
    run: impl Fn(&[Value], &Dim) -> Result<Vec<Value>, Failed>,
) -> Result<Vec<Value>, Failed> {
    let length = chunk as i64;
    let count = (size(rows.clone(), DType::I64) + (length - 1)) / length;
    let start = constant(HostTensor::scalar(0i64));
    let offsets = iota(chunk, DType::I64);
    let (_, ys) = try_repeat::<_, _, _, Failed>(at, of_loop, Some(count), start, (), |start, ()| {
        let indices = start + offsets;
        let rows: Vec<Value> = xs.iter().map(|x| x.take(0, indices)).collect();
        Ok((start + length, run(&rows, &Dim::from(chunk))?, None))
    })?;
    ys.into_iter().map(|y| Ok(join_chunks(y, &Dim::from(chunk))?.slice(0, Dim::from(0)..rows.clone()))).collect()
}

/// Merges the axis of the chunks with the axis of the rows in a chunk.
pub(super) fn join_chunks(chunks: Value, chunk: &Dim) -> Result<Value, Failed> {
    let shape = chunks.checked()?.shape();
    Ok(chunks.reshape(shape.without(0).with_dim(0, shape[0].clone() * chunk)))
}
