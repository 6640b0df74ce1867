//! Derivative rules that are being traced.

use super::*;

/// A rule that is being traced.
#[derive(Debug)]
pub(crate) struct OpenRule {
    /// The site of the call.
    pub(crate) site: Site,
    /// The function, as a text for comparison.
    pub(crate) function: String,
    /// The number of enclosing rules of the same function.
    pub(crate) level: usize,
    /// `true` if the rule uses `itself`.
    pub(crate) uses_itself: Cell<bool>,
    /// The rules of its function that were traced inside it, as texts.
    pub(crate) inner: RefCell<Vec<String>>,
}

impl Graph {
    /// Returns a text that is equal for two graphs traced by the same closure: fresh symbols are renumbered in order
    /// of appearance.
    pub(crate) fn text_to_compare(&self) -> String {
        let text = self.to_string();
        let mut parts = text.split('$');
        let mut compared = parts.next().expect("`split` yields at least one part").to_string();
        let mut seen: Vec<&str> = Vec::new();
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
            let (name, rest) = part.split_at(end);
            let number = seen.iter().position(|other| *other == name).unwrap_or(seen.len());
            if number == seen.len() {
                seen.push(name);
            }
            compared += &format!("${number}{rest}");
        }
        compared
    }
}
