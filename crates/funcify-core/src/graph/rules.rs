//! Derivative rules that are being traced.

use super::*;

/// A rule that is being traced.
#[derive(Debug)]
pub(crate) struct OpenRule {
    /// The line of the call.
    pub(crate) site: Site,
    /// The function, as a text to compare.
    pub(crate) function: String,
    /// How many rules of the same function it is in.
    pub(crate) level: usize,
    /// Whether it says `itself`.
    pub(crate) says_itself: Cell<bool>,
    /// The rules of its function that were traced inside of it, as texts.
    pub(crate) inner: RefCell<Vec<String>>,
}

impl Graph {
    /// A text that two graphs have that were traced by the same closure: the names of symbols that were made for it are
    /// numbered as they come.
    pub(crate) fn text_to_compare(&self) -> String {
        let text = self.to_string();
        let mut parts = text.split('$');
        let mut compared = parts.next().expect("a text has a first part").to_string();
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
