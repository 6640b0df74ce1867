//! The training text: this repository's documentation, split into windows of bytes. A second thread prepares batches
//! while the model trains.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::learner::Sizes;

/// The training bytes and the validation bytes.
#[derive(Clone)]
pub(crate) struct Text {
    learnt: Arc<[u8]>,
    held_out: Arc<[u8]>,
}

/// A batch of windows of bytes, with the successor of each byte.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// The bytes of all windows, one window after the other.
    pub(crate) bytes: Vec<u32>,
    /// The successor of each byte: the same windows, shifted by one byte.
    pub(crate) next: Vec<u32>,
    /// The number of windows, and the number of bytes per window.
    pub(crate) shape: [usize; 2],
}

impl Text {
    /// Loads the documentation. Every tenth kilobyte is held out for validation.
    pub(crate) fn of_this_repository() -> Self {
        let documents = [
            include_str!("../../../../README.md"),
            include_str!("../../../../docs/guide.md"),
            include_str!("../../../../docs/derivatives.md"),
            include_str!("../../../../docs/existing-models.md"),
            include_str!("../../../../docs/serving.md"),
            include_str!("../../../../docs/backends.md"),
            include_str!("../../../../docs/design/code-map.md"),
            include_str!("../../../../docs/design/decisions.md"),
            include_str!("../../../../CONTRIBUTING.md"),
            include_str!("../../../../CHANGELOG.md"),
            include_str!("../../../../crates/funcify-core/src/ops/numerics.md"),
        ];
        let (mut learnt, mut held_out) = (Vec::new(), Vec::new());
        for (index, part) in documents.concat().as_bytes().chunks(1 << 10).enumerate() {
            if index % 10 == 9 { held_out.extend(part) } else { learnt.extend(part) }
        }
        Text { learnt: learnt.into(), held_out: held_out.into() }
    }

    /// Returns the batch for training step `step`. The batch is the same in every run.
    pub(crate) fn batch(&self, sizes: Sizes, step: usize) -> Batch {
        windows(&self.learnt, sizes, step as u64)
    }

    /// Returns the validation batches.
    pub(crate) fn validation(&self, sizes: Sizes) -> Vec<Batch> {
        (0..4).map(|index| windows(&self.held_out, sizes, u64::MAX - index)).collect()
    }

    /// Prepares the batches of these steps on another thread, at most two in advance.
    pub(crate) fn prepare_batches(&self, sizes: Sizes, steps: std::ops::Range<usize>) -> Receiver<Batch> {
        let (sender, receiver) = sync_channel(2);
        let text = self.clone();
        // The thread ends when the receiver is dropped.
        std::thread::spawn(move || steps.map(|step| text.batch(sizes, step)).try_for_each(|batch| sender.send(batch)));
        receiver
    }
}

fn windows(bytes: &[u8], sizes: Sizes, seed: u64) -> Batch {
    let mut random = StdRng::seed_from_u64(seed);
    let shape = [sizes.batch, sizes.bytes];
    let mut batch = Batch { bytes: Vec::new(), next: Vec::new(), shape };
    for _ in 0..sizes.batch {
        let start = random.random_range(0..bytes.len() - sizes.bytes);
        let window = |start: usize| bytes[start..start + sizes.bytes].iter().map(|byte| u32::from(*byte));
        batch.bytes.extend(window(start));
        batch.next.extend(window(start + 1));
    }
    batch
}
