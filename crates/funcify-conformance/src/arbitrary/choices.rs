//! Makes the choices that determine a program. Reads them from a tape of pseudorandom words, which can be generated
//! from a seed, replayed, and shrunk.
//!
//! The tape fully determines the program. Shrinking the tape therefore shrinks any failing program, without knowledge
//! of the program's structure. The Python library Hypothesis works the same way. A read past the end of the tape yields
//! zero, and zero is always the simplest choice.

/// A source of random choices.
#[derive(Clone, Debug)]
pub struct Choices {
    words: Vec<u32>,
    at: usize,
    /// The state of the random number generator that extends the tape, or `None` if the tape is replayed.
    random: Option<u64>,
}

impl Choices {
    /// Creates a source of random choices from a seed.
    pub fn seeded(seed: u64) -> Self {
        Choices { words: Vec::new(), at: 0, random: Some(seed) }
    }

    /// Creates a source that replays a tape.
    pub fn replayed(words: Vec<u32>) -> Self {
        Choices { words, at: 0, random: None }
    }

    /// Returns the words of the tape that have been read so far.
    pub fn tape(&self) -> &[u32] {
        &self.words[..self.at.min(self.words.len())]
    }

    fn word(&mut self) -> u32 {
        if let Some(state) = &mut self.random
            && self.at == self.words.len()
        {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.words.push((splitmix64(*state) >> 32) as u32);
        }
        self.at += 1;
        self.words.get(self.at - 1).copied().unwrap_or(0)
    }

    /// Returns a random number in `0..count`, or 0 if the range is empty.
    pub fn below(&mut self, count: usize) -> usize {
        ((u64::from(self.word()) * count as u64) >> 32) as usize
    }

    /// Returns `true` with a probability of one in `count`.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) + 1 == count && count > 0
    }

    /// Picks an item uniformly.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Picks an item with probability proportional to its weight.
    pub fn pick_weighted<T: Copy>(&mut self, from: &[(usize, T)]) -> T {
        let mut left = self.below(from.iter().map(|(weight, _)| weight).sum());
        for (weight, item) in from {
            if left < *weight {
                return *item;
            }
            left -= weight;
        }
        from[0].1
    }
}

/// Applies the output function of SplitMix64 (Steele, Lea, Flood 2014).
pub fn splitmix64(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// Shrinks a failing tape. Calls `fails` at most `tries` times, and returns the smallest tape found for which `fails`
/// returns `true`.
pub fn shrink_tape(tape: Vec<u32>, tries: usize, mut fails: impl FnMut(&[u32]) -> bool) -> Vec<u32> {
    let (mut best, mut left) = (tape, tries);
    let mut accepted = |best: &mut Vec<u32>, candidate: Vec<u32>, left: &mut usize| {
        if *left == 0 || candidate == *best {
            return false;
        }
        *left -= 1;
        let accepted = fails(&candidate);
        if accepted {
            *best = candidate;
        }
        accepted
    };
    loop {
        let before = best.clone();
        for length in [32, 16, 8, 4, 2, 1] {
            let mut start = 0;
            while start < best.len() {
                let end = (start + length).min(best.len());
                let removed = [&best[..start], &best[end..]].concat();
                if accepted(&mut best, removed, &mut left) {
                    continue;
                }
                let mut zeroed = best.clone();
                zeroed[start..end].fill(0);
                accepted(&mut best, zeroed, &mut left);
                start += length;
            }
        }
        for index in 0..best.len() {
            let mut halved = best.clone();
            halved[index] /= 2;
            accepted(&mut best, halved, &mut left);
        }
        if best == before || left == 0 {
            return best;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tape_replays_what_a_seed_chose() {
        let mut seeded = Choices::seeded(7);
        let chosen: Vec<usize> = (0..20).map(|_| seeded.below(10)).collect();
        let mut replayed = Choices::replayed(seeded.tape().to_vec());
        assert_eq!((0..20).map(|_| replayed.below(10)).collect::<Vec<_>>(), chosen);
        assert_eq!(replayed.below(10), 0);
        assert!(chosen.iter().any(|number| *number != chosen[0]));
    }

    #[test]
    fn the_smallest_tape_that_fails_is_found() {
        let mut seeded = Choices::seeded(1);
        (0..200).for_each(|_| _ = seeded.below(10));
        let has_two_large = |tape: &[u32]| tape.iter().filter(|word| **word >= 1 << 30).count() >= 2;
        let tape = shrink_tape(seeded.tape().to_vec(), 5000, has_two_large);
        assert_eq!(tape.len(), 2);
        assert!(tape.iter().all(|word| *word < 1 << 31), "{tape:?}");
    }
}
