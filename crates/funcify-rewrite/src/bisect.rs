//! Finds the patch that makes a result wrong, by bisection.

/// Finds a patch that makes a result wrong, by bisection over `patches` patches. Returns the number of the patch,
/// counted from 1, or `None` if the result is right after all patches or already wrong before the first one. `is_right`
/// receives a number of patches, and returns `true` if the result is right when only that many patches are applied (see
/// [`RewriteOptions::stop_after`](super::RewriteOptions::stop_after)).
///
/// The result is right before the returned patch and wrong after it, even if a later patch hides the error again.
///
/// ```
/// use funcify::prelude::*;
/// use funcify::rewrite::{RewriteOptions, first_wrong};
///
/// let graph = Graph::build("same", |g| (g.input("x", "f32[2]") * 1.0).exp())?;
/// let patches = graph.rewritten_with(&RewriteOptions::new())?.patches.len();
/// let inputs = [HostTensor::from([0f32, 1.0])];
/// let expected = evaluate(&graph, &inputs)?;
/// let wrong = first_wrong(patches, |count| {
///     let rewritten = graph.rewritten_with(&RewriteOptions::new().stop_after(count))?;
///     Ok::<_, funcify::Error>(evaluate(&rewritten.graph, &inputs)? == expected)
/// })?;
/// assert_eq!(wrong, None);
/// # Ok::<(), funcify::Error>(())
/// ```
///
/// # Errors
/// Returns the first error that `is_right` returns.
pub fn first_wrong<E>(patches: usize, mut is_right: impl FnMut(usize) -> Result<bool, E>) -> Result<Option<usize>, E> {
    if !is_right(0)? || is_right(patches)? {
        return Ok(None);
    }
    let (mut right, mut wrong) = (0, patches);
    while wrong - right > 1 {
        let middle = right + (wrong - right) / 2;
        match is_right(middle)? {
            true => right = middle,
            false => wrong = middle,
        }
    }
    Ok(Some(wrong))
}

#[cfg(test)]
mod tests {
    use super::first_wrong;

    #[test]
    fn the_patch_is_named_in_few_tries() {
        for patches in [1, 2, 3, 100, 1023] {
            for culprit in 1..=patches {
                let mut tries = 0;
                let patch = first_wrong(patches, |count| {
                    tries += 1;
                    Ok::<bool, ()>(count < culprit)
                });
                assert_eq!(patch, Ok(Some(culprit)));
                assert!(tries <= 2 + patches.ilog2() as usize + 1, "{tries} tries of {patches}");
            }
        }
    }

    #[test]
    fn nothing_is_named_where_nothing_is_wrong_or_all_is() {
        assert_eq!(first_wrong(10, |_| Ok::<bool, ()>(true)), Ok(None));
        assert_eq!(first_wrong(10, |_| Ok::<bool, ()>(false)), Ok(None));
        assert_eq!(first_wrong(0, |_| Ok::<bool, ()>(true)), Ok(None));
        assert_eq!(first_wrong(10, |count| if count == 5 { Err("stopped") } else { Ok(count < 3) }), Err("stopped"));
    }

    /// Tests a sequence of patches in which one patch hides an earlier error, and a later patch introduces another
    /// error. The search may return either of the two patches that introduce an error.
    #[test]
    fn what_is_named_changes_the_answer() {
        let is_right = |count: usize| !(3..7).contains(&count) && count < 9;
        let patch = first_wrong(12, |count| Ok::<bool, ()>(is_right(count))).unwrap().unwrap();
        assert!(is_right(patch - 1) && !is_right(patch), "{patch}");
    }
}
