//! Tests the README's example of a change to an existing model: runs the model before and after the change, and
//! compares the results.

mod common;

#[path = "drop_in/after.rs"]
mod after;
#[path = "drop_in/before.rs"]
mod before;

use candle_core::{DType, Device};
use candle_nn::{VarBuilder, VarMap};
use common::{assert_close, assert_gradients, backward, var};

#[test]
fn the_model_gives_the_same() {
    let map = VarMap::new();
    let vb = || VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu);
    let before = before::Tagger::new(3, 5, 2, vb()).unwrap();
    let after = after::Tagger::new(3, 5, 2, vb()).unwrap();
    let xs = var(1, &[4, 20, 3], DType::F32);
    let (expected, found) = (before.forward(&xs).unwrap(), after.forward(&xs).unwrap());
    assert_close(&found, &expected, "outputs");
    let gradients = |tags| backward(&[tags]);
    let vars = map.all_vars();
    let every: Vec<_> = vars.iter().chain([&xs]).collect();
    assert_gradients(&gradients(&found), &gradients(&expected), &every, "gradients");
}

#[test]
fn the_readme_shows_the_change() {
    let readme = include_str!("../README.md");
    let (_, rest) = readme.split_once("```diff\n").unwrap();
    let (diff, _) = rest.split_once("\n```").unwrap();
    let side = |sign: char| -> Vec<&str> {
        let of_side = |line: &&str| line.is_empty() || line.starts_with(' ') || line.starts_with(sign);
        diff.lines().filter(of_side).map(|line| line.get(1..).unwrap_or("")).collect()
    };
    // Skip the module doc, which the README omits.
    let lines = |text: &'static str| text.lines().skip(2).collect::<Vec<_>>();
    assert_eq!(side('-'), lines(include_str!("drop_in/before.rs")));
    assert_eq!(side('+'), lines(include_str!("drop_in/after.rs")));
    assert!(diff.lines().filter(|line| line.starts_with('+')).count() <= 3);
}
