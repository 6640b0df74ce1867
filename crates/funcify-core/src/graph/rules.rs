//! Tracks the custom derivative rules that are being traced.

use super::*;

/// A custom derivative rule that is being traced.
#[derive(Debug)]
pub(crate) struct OpenRule {
    /// The site of the call to the function that has this rule.
    pub(crate) site: Site,
    /// The text form of the function, used to recognise calls to the function inside its own rule.
    pub(crate) function: String,
    /// The number of enclosing rules of the same function.
    pub(crate) level: usize,
    /// `true` if the rule contains a recursive call, `Rule::Itself`.
    pub(crate) uses_itself: Cell<bool>,
    /// The text forms of the recursive rules that were traced directly inside this rule, for the same function.
    pub(crate) inner: RefCell<Vec<String>>,
}

impl Graph {
    /// Returns the text form with its fresh symbols renumbered in the order of their first use. The result is the same
    /// for all graphs traced from the same closure.
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
