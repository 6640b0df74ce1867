//! Stores the values that a closure loop saves for its gradient: the carry at the start of each segment, or the graphs
//! of the steps.

use std::ops::Range;

use candle_core::{CpuStorage, Result, Storage, Tensor};

/// The recorded graph of one step, which starts from new leaves.
pub(super) struct Traced {
    /// The new leaves that were passed to the step: the carry in `carry`, and the rows in `xs`.
    pub(super) carry: Vec<Tensor>,
    pub(super) xs: Vec<Tensor>,
    /// The results of the step: the next carry in `next`, and the ys in `ys`.
    pub(super) next: Vec<Tensor>,
    pub(super) ys: Vec<Tensor>,
}

/// The policy that determines which carries or graphs a loop saves for its backward pass.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keep {
    /// Saves the carry before each step whose index is a multiple of this interval.
    Every(usize),
    /// Like [`Every`](Keep::Every), for a loop with an unknown number of steps. The interval doubles whenever the
    /// number of saved carries exceeds twice the interval. So the interval and the number of saved carries both grow
    /// with the square root of the number of steps.
    Thinned(usize),
    /// Saves the graphs of all steps, so that nothing is rerun.
    Graphs,
}

/// The values that a loop has saved for its backward pass.
pub(super) struct Record {
    pub(super) keep: Keep,
    /// The index of the first step of each segment, and the carry before that step.
    starts: Vec<(usize, Vec<Tensor>)>,
    /// The fingerprint of each float y of each step, if the steps will be rerun. A fingerprint is `None` on devices
    /// other than the CPU. The rerun compares the fingerprints to detect closures that are not reproducible.
    pub(super) fingerprints: Vec<Option<u64>>,
    /// The graphs of all steps, if they are saved.
    pub(super) graphs: Vec<Traced>,
    /// The number of steps that have run.
    pub(super) steps: usize,
    /// The last carry.
    pub(super) last: Vec<Tensor>,
}

impl Record {
    pub(super) fn new(keep: Keep) -> Self {
        Record { keep, starts: Vec::new(), fingerprints: Vec::new(), graphs: Vec::new(), steps: 0, last: Vec::new() }
    }

    /// Saves the carry before the next step if the policy requires it.
    pub(super) fn save_if_due(&mut self, carry: &[Tensor]) {
        let every = match &mut self.keep {
            Keep::Graphs => return,
            Keep::Every(every) => *every,
            Keep::Thinned(every) => {
                if self.starts.len() > 2 * *every {
                    *every *= 2;
                    let every = *every;
                    self.starts.retain(|(step, _)| step % every == 0);
                }
                *every
            }
        };
        if self.steps.is_multiple_of(every) {
            self.starts.push((self.steps, carry.to_vec()));
        }
    }

    /// Returns the segments in reverse order: the steps of each segment, the carry before the segment and the carry
    /// after it.
    pub(super) fn segments(&self) -> impl Iterator<Item = (Range<usize>, &[Tensor], &[Tensor])> {
        (0..self.starts.len()).rev().map(|index| {
            let (first, start) = &self.starts[index];
            match self.starts.get(index + 1) {
                Some((end, next)) => (*first..*end, start.as_slice(), next.as_slice()),
                None => (*first..self.steps, start.as_slice(), self.last.as_slice()),
            }
        })
    }
}

/// Returns the fingerprints of the float ys of a step.
pub(super) fn fingerprints(ys: &[Tensor]) -> impl Iterator<Item = Result<Option<u64>>> {
    ys.iter().filter(|y| y.dtype().is_float()).map(fingerprint)
}

/// Returns a hash of the bits of a float tensor, or `None` on devices other than the CPU, where a rerun may return
/// different bits.
fn fingerprint(tensor: &Tensor) -> Result<Option<u64>> {
    fn sums(bits: impl Iterator<Item = u64>) -> Option<u64> {
        let add = |(sum, of_sums): (u64, u64), bits: u64| {
            let sum = sum.wrapping_add(bits);
            (sum, of_sums.wrapping_add(sum))
        };
        let (sum, of_sums) = bits.fold((1, 0), add);
        Some(sum ^ of_sums.rotate_left(32))
    }
    let tensor = tensor.detach().contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let range = layout.start_offset()..layout.start_offset() + layout.shape().elem_count();
    Ok(match &*storage {
        Storage::Cpu(CpuStorage::F32(elements)) => sums(elements[range].iter().map(|e| u64::from(e.to_bits()))),
        Storage::Cpu(CpuStorage::F64(elements)) => sums(elements[range].iter().map(|e| e.to_bits())),
        Storage::Cpu(CpuStorage::F16(elements)) => sums(elements[range].iter().map(|e| u64::from(e.to_bits()))),
        Storage::Cpu(CpuStorage::BF16(elements)) => sums(elements[range].iter().map(|e| u64::from(e.to_bits()))),
        _ => None,
    })
}

/// Returns whether two tensors hold the same numbers, with NaN in the same positions.
pub(super) fn is_same(a: &Tensor, b: &Tensor) -> Result<bool> {
    if a.elem_count() == 0 {
        return Ok(true);
    }
    let equal = a.eq(b)?.flatten_all()?;
    if equal.min(0)?.to_scalar::<u8>()? == 1 {
        return Ok(true);
    }
    let both_nan = (a.ne(a)? * b.ne(b)?)?.flatten_all()?;
    Ok(equal.maximum(&both_nan)?.min(0)?.to_scalar::<u8>()? == 1)
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};

    use super::{Keep, Record};

    fn record(keep: Keep, steps: usize) -> Record {
        let mut record = Record::new(keep);
        for step in 0..steps {
            record.save_if_due(&[Tensor::new(step as u32, &Device::Cpu).unwrap()]);
            record.steps += 1;
        }
        record
    }

    #[test]
    fn segments_cover_the_steps() {
        for steps in [1usize, 2, 3, 10, 97, 1000] {
            for keep in [Keep::Every(1), Keep::Every(7), Keep::Every(5000), Keep::Thinned(1)] {
                let record = record(keep, steps);
                let mut end = steps;
                for (range, start, _) in record.segments() {
                    assert_eq!(range.end, end);
                    assert_eq!(start[0].to_scalar::<u32>().unwrap() as usize, range.start);
                    end = range.start;
                }
                assert_eq!(end, 0);
            }
        }
    }

    #[test]
    fn few_carries_and_short_segments_of_a_loop_of_unknown_length() {
        for steps in [1usize, 10, 100, 1000, 10_000] {
            let record = record(Keep::Thinned(1), steps);
            let longest = record.segments().map(|(range, ..)| range.len()).max().unwrap();
            let bound = 3 * (steps as f64).sqrt().ceil() as usize;
            assert!(record.starts.len() <= bound && longest <= bound, "{} starts, {longest}", record.starts.len());
        }
        assert_eq!(record(Keep::Graphs, 10).starts.len(), 0);
    }
}
