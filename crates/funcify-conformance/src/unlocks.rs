//! Lists the ops and types that a backend is missing, with the number of cases that each would unlock.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::align;

/// An op or a tensor type that a backend is missing.
///
/// ```
/// use funcify_conformance::unlocks;
///
/// let needs = [vec!["exp".to_string()], vec!["exp".to_string(), "sum".to_string()]];
/// let first = &unlocks(needs.iter().map(Vec::as_slice))[0];
/// assert_eq!((first.need.as_str(), first.cases, first.only_need), ("exp", 2, 1));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unlock {
    /// The op's name, or a type, as in `tensors of f16`.
    pub need: String,
    /// The number of cases with this need.
    pub cases: usize,
    /// The number of cases with only this need.
    pub only_need: usize,
    /// The number of further cases that run once the backend has this entry and all entries before it in the list.
    pub newly_unlocked: usize,
}

/// Lists the missing ops and types, given the needs of each case. The list is greedy: each entry is the op or type that
/// unlocks the most additional cases once all entries before it are available.
///
/// ```
/// use funcify_conformance::unlocks;
///
/// let needs = [vec!["exp".to_string()], vec!["exp".to_string(), "sum".to_string()]];
/// let names: Vec<String> = unlocks(needs.iter().map(Vec::as_slice)).into_iter().map(|unlock| unlock.need).collect();
/// assert_eq!(names, ["exp", "sum"]);
/// ```
pub fn unlocks<'a>(needs: impl IntoIterator<Item = &'a [String]>) -> Vec<Unlock> {
    let mut left: Vec<BTreeSet<&str>> =
        needs.into_iter().map(|needs| needs.iter().map(String::as_str).collect()).collect();
    left.retain(|needs: &BTreeSet<&str>| !needs.is_empty());
    let all = count_needs(&left);
    let mut unlocks = Vec::new();
    loop {
        let counts = count_needs(&left);
        let most =
            counts.iter().max_by_key(|(need, (cases, only_need))| (*only_need, *cases, std::cmp::Reverse(**need)));
        let Some((&need, &(_, newly_unlocked))) = most else { return unlocks };
        let (cases, only_need) = all[need];
        unlocks.push(Unlock { need: need.to_string(), cases, only_need, newly_unlocked });
        left.iter_mut().for_each(|needs| _ = needs.remove(need));
        left.retain(|needs| !needs.is_empty());
    }
}

/// Returns, for each need, the number of cases with this need, and the number of cases with only this need.
fn count_needs<'a>(left: &[BTreeSet<&'a str>]) -> BTreeMap<&'a str, (usize, usize)> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for needs in left {
        for need in needs {
            let (cases, only_need) = counts.entry(need).or_default();
            *cases += 1;
            *only_need += usize::from(needs.len() == 1);
        }
    }
    counts
}

/// Formats the list as a table.
///
/// ```
/// use funcify_conformance::{unlock_table, unlocks};
///
/// let needs = [vec!["exp".to_string()]];
/// assert!(unlock_table(&unlocks(needs.iter().map(Vec::as_slice))).starts_with("needs  cases  nothing else"));
/// ```
pub fn unlock_table(unlocks: &[Unlock]) -> String {
    let head = ["needs", "cases", "nothing else", "unlocked in this order"].map(str::to_string).to_vec();
    let line = |unlock: &Unlock| {
        let Unlock { need, cases, only_need, newly_unlocked } = unlock;
        vec![need.clone(), cases.to_string(), only_need.to_string(), format!("+{newly_unlocked}")]
    };
    align(&[vec![head], unlocks.iter().map(line).collect()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_unlocks_most_comes_first() {
        let cases =
            [vec!["exp"], vec!["exp", "sum"], vec!["exp", "sum"], vec!["sin"], vec!["sin"], vec!["sin", "sum"], vec![]];
        let cases = cases.map(|needs| needs.into_iter().map(str::to_string).collect::<Vec<_>>());
        let unlocks = unlocks(cases.iter().map(Vec::as_slice));
        let counts: Vec<_> = unlocks
            .iter()
            .map(|unlock| (unlock.need.as_str(), unlock.cases, unlock.only_need, unlock.newly_unlocked))
            .collect();
        // `sin` comes first. Then `exp` and `sum` would each unlock one more case, and `exp` wins the tie because its
        // name sorts first. `sum` unlocks the remaining cases.
        assert_eq!(counts, [("sin", 3, 2, 2), ("exp", 3, 1, 1), ("sum", 3, 0, 3)]);
        let total: usize = unlocks.iter().map(|unlock| unlock.newly_unlocked).sum();
        assert_eq!(total, 6);
        let table = unlock_table(&unlocks);
        assert!(table.contains("sin    3      2             +2"), "{table}");
    }
}
