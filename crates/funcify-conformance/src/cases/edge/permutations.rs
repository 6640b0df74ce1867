//! Bodies that permute their carries or states. A step must read all carries and states before it overwrites any of
//! them (scan-c1).

use std::collections::BTreeMap;

use super::*;

/// The number of carries or states in each case.
const COUNT: usize = 6;

/// The number of steps, which is not a multiple of the order of most permutations.
const STEPS: usize = 5;

pub(super) fn cases() -> Cases {
    let mut random = Random(0x5eed);
    let mut cases = Vec::new();
    for number in 0..4 {
        let permutation = random.permutation();
        cases.push(permuted_carries(&format!("permuted_carries_{number}"), permutation)?);
        cases.push(permuted_states(&format!("permuted_states_{number}"), permutation)?);
    }
    cases.push(permuted_carries("rotated_carries", [1, 2, 3, 4, 5, 0])?);
    cases.push(permuted_states("rotated_states", [1, 2, 3, 4, 5, 0])?);
    Ok(cases)
}

/// Builds a case with a loop whose steps replace carry `i` with the old carry `permutation[i]`. The carries start at 0,
/// 10, 20 and so on.
fn permuted_carries(name: &str, permutation: [usize; COUNT]) -> OneCase {
    let program = |g: &Builder| {
        let inputs = named_inputs(g);
        let steps = g.input("steps", format!("i64[{STEPS}]").as_str());
        let (last, ()) = scan(inputs, steps, |carries, _| (permutation.map(|source| carries[source]), ()));
        named("last", last)
    };
    let last = (0..STEPS).fold(starts(), |carries, _| permutation.map(|source| carries[source]));
    let inputs: Vec<_> = starts().map(scalar).into_iter().chain([row([0i64; STEPS])]).collect();
    case(name, program).on(inputs).gives((0..COUNT).map(|index| (format!("last{index}"), scalar(last[index]))))
}

/// Builds the same case as [`permuted_carries`], but with states instead of carries. The traces of the states show the
/// result of each step.
fn permuted_states(name: &str, permutation: [usize; COUNT]) -> OneCase {
    let program = |g: &Builder| {
        let mut loop_ = Recurrence::new();
        let states = named_inputs(g).map(|init| loop_.sit_sot(init));
        let done = loop_.steps(STEPS).run(|step| {
            let old = states.map(|state| step.read(&state)[0]);
            for (state, source) in states.iter().zip(permutation) {
                step.write(state, old[source]);
            }
        });
        named("trace", states.map(|state| done.trace(&state)))
    };
    let mut rows = vec![starts()];
    for step in 0..STEPS {
        rows.push(permutation.map(|source| rows[step][source]));
    }
    let trace = |index: usize| row(std::array::from_fn::<f32, STEPS, _>(|step| rows[step + 1][index]));
    case(name, program).on(starts().map(scalar)).gives((0..COUNT).map(|index| (format!("trace{index}"), trace(index))))
}

fn starts() -> [f32; COUNT] {
    std::array::from_fn(|index| 10.0 * index as f32)
}

fn named_inputs(g: &Builder) -> [Value; COUNT] {
    std::array::from_fn(|index| g.input(&format!("init{index}"), "f32[]"))
}

fn named(root: &str, values: [Value; COUNT]) -> BTreeMap<String, Value> {
    values.into_iter().enumerate().map(|(index, value)| (format!("{root}{index}"), value)).collect()
}

/// A linear congruential generator with the constants of Knuth's MMIX.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }

    /// Returns a random permutation, computed by a Fisher-Yates shuffle.
    fn permutation(&mut self) -> [usize; COUNT] {
        let mut permutation = std::array::from_fn(|index| index);
        for last in (1..COUNT).rev() {
            permutation.swap(last, self.below(last + 1));
        }
        permutation
    }
}
