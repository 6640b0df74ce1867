//! Tests one invalid program for each clause of the type rules and checks. The programs are in `rejected/`.
//!
//! Each file contains programs, each followed by a comment with the error message that the user sees. A line `// run:
//! T=0 n=-1` before a program means that the program fails only at run time, with these sizes and integers.
//! `FUNCIFY_BLESS=1 cargo test -p funcify --test rejected` rewrites the error messages.
//!
//! [`every_sentence_of_a_refusal_is_read_by_a_test`] fails if the message of a clause occurs neither in `rejected/` nor
//! in `errors/`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use funcify::{Error, Graph, HostTensor, Scalar, Sizes, Symbol, evaluate};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns all files in a folder and its subfolders whose names end with `ending`.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path, ending)),
            false if path.to_string_lossy().ends_with(ending) => all.push(path),
            false => {}
        }
    }
    all.sort();
    all
}

/// A program in a file: the preceding `// run:` line, if any, the text, and the error message.
#[derive(Default)]
struct RejectedProgram {
    run: Option<String>,
    text: String,
    error: String,
}

/// Reads a file, and splits it into its header and its programs.
fn read(path: &Path) -> (String, Vec<RejectedProgram>) {
    let (mut head, mut programs, mut run, mut is_open) = (String::new(), Vec::<RejectedProgram>::new(), None, false);
    for line in std::fs::read_to_string(path).unwrap().lines() {
        if line.starts_with("fn @") {
            is_open = true;
            programs.push(RejectedProgram { run: run.take(), ..RejectedProgram::default() });
        }
        match programs.last_mut() {
            Some(program) if is_open => program.text += &format!("{line}\n"),
            _ if line.starts_with("// run:") => run = Some(line.to_string()),
            Some(program) => match line.strip_prefix("// ") {
                Some(line) => program.error += &format!("{line}\n"),
                None => assert!(line.is_empty(), "{}: what is `{line}`?", path.display()),
            },
            None if line.is_empty() => {}
            None => head += &format!("{line}\n"),
        }
        is_open &= line != "}";
    }
    (head, programs)
}

fn file_text(head: &str, programs: &[RejectedProgram]) -> String {
    let mut text = head.to_string();
    for program in programs {
        let run = program.run.as_ref().map(|run| format!("{run}\n")).unwrap_or_default();
        let error: String = program.error.lines().map(|line| format!("// {line}\n")).collect();
        text += &format!("\n{run}{}{error}", program.text);
    }
    text
}

/// Parses a program and, if it has a `// run:` line, runs it.
fn parse_and_run(program: &RejectedProgram) -> Result<(), Error> {
    let graph = Graph::parse(&program.text)?;
    let Some(run) = &program.run else { return Ok(()) };
    let numbers: BTreeMap<&str, i64> = run
        .trim_start_matches("// run:")
        .split_whitespace()
        .map(|word| word.split_once('=').unwrap())
        .map(|(name, number)| (name, number.parse().unwrap()))
        .collect();
    let mut sizes = Sizes::new();
    for (name, number) in &numbers {
        sizes.set(&Symbol::new(name), usize::try_from(*number).unwrap_or(0));
    }
    let argument = |index: usize| {
        let (ty, number) = (graph.input_type(index), numbers.get(graph.input_name(index)).copied().unwrap_or(0));
        let shape = ty.shape.value(&sizes).unwrap_or_else(|symbol| panic!("`{symbol}` has no size in {run}"));
        HostTensor::from_fn(ty.dtype, &shape, |_| match ty.dtype.is_int() {
            true => Scalar::Int(number),
            false => Scalar::Float(0.0),
        })
    };
    let arguments: Vec<HostTensor> = (0..graph.inputs().len()).map(argument).collect();
    evaluate(&graph, &arguments).map(drop)
}

/// Returns the error message as the user sees it, without the source location.
fn error_text(error: &Error) -> String {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.starts_with("  at:"));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn every_program_is_refused_as_it_says() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in files(&folder("tests/rejected"), ".fir") {
        let (head, mut programs) = read(&path);
        for program in &mut programs {
            count += 1;
            if program.run.is_some()
                && let Err(error) = Graph::parse(&program.text)
            {
                wrong.push(format!("{}: refused before it runs\n{}{error}", path.display(), program.text));
                continue;
            }
            let found = match parse_and_run(program) {
                Err(error) => error_text(&error),
                Ok(()) => "not refused\n".to_string(),
            };
            if found == "not refused\n" || (found != program.error && std::env::var_os("FUNCIFY_BLESS").is_none()) {
                wrong.push(format!("{}\n{}{found}not\n{}", path.display(), program.text, program.error));
            }
            program.error = found;
        }
        if std::env::var_os("FUNCIFY_BLESS").is_some() {
            std::fs::write(&path, file_text(&head, &programs)).unwrap();
        }
    }
    let list = wrong.join("\n");
    assert!(wrong.is_empty(), "{list}\n{} programs; FUNCIFY_BLESS=1 rewrites the errors", wrong.len());
    assert!(count > 150, "{count} programs");
}

/// The sources whose error messages the tests must cover. The grammar of the text form has its own tests. So do the
/// checker and the comparison of graphs, because these need graphs that only their own tests can build.
const RULES: [&str; 7] = [
    "funcify-core/src/ops",
    "funcify-core/src/graph",
    "funcify-core/src/value",
    "funcify-core/src/derivative",
    "funcify-core/src/vmap",
    "funcify-core/src/random.rs",
    "funcify-nn/src",
];

/// String literals that are not part of an error, and errors that are unreachable because a type rule rejects the
/// program first.
const UNREACHABLE_SENTENCES: [&str; 21] = [
    "differentiate a program that `Graph::check` accepts",
    "its forward pass has not saved the data that its reverse rule needs",
    "case {number}",
    "output `{}`",
    "no definition",
    "a switch needs at least one branch",
    "every op to be registered once, but `{twice}` is registered twice",
    "it is not inside a rule, so it refers to no function",
    "replace it by the function with its rule",
    "the first branch",
    "branch 0",
    "row {row}, given or written before it is read",
    "nothing in that row",
    "give more initial rows, or read rows that were written",
    "rows of other sizes",
    "call with sizes that agree",
    "a rule that calls its own function",
    "call the function on values of the same types as outside of its rule",
    "the function's types",
    "each variant is documented at the type that it holds",
    "a test requested this failure",
];

/// The sentences of error messages, with the source lines that contain them. A sentence is a string literal of several
/// words, split at its placeholders.
type Sentences = BTreeMap<Vec<String>, Vec<String>>;

/// Returns the string literals of a source file with their line numbers. Skips comments, tests, and the messages of
/// `expect`, which are unreachable.
fn literals(source: &str) -> Vec<(usize, String)> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let (mut all, mut line, mut open) = (Vec::new(), 1, None::<(usize, String)>);
    let mut characters = source.chars().peekable();
    let (mut is_start, mut code) = (true, String::new());
    while let Some(character) = characters.next() {
        line += usize::from(character == '\n');
        match (&mut open, character) {
            (Some(_), '"') => all.extend(open.take().filter(|_| !code.trim_end().ends_with(".expect("))),
            (Some((_, text)), '\\') => match characters.next() {
                Some('\n') => {
                    line += 1;
                    while characters.next_if(|next| next.is_whitespace()).is_some() {}
                }
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => {}
            },
            (Some((_, text)), _) => text.push(character),
            (None, '/') if is_start && characters.peek() == Some(&'/') => {
                while characters.next_if(|next| *next != '\n').is_some() {}
            }
            (None, '\'') if characters.peek() == Some(&'"') => _ = characters.next(),
            (None, '"') => open = Some((line, String::new())),
            (None, _) => code.push(character),
        }
        is_start = character == '\n' || (is_start && character.is_whitespace());
    }
    all
}

/// Splits a string literal at its placeholders.
fn split_at_placeholders(literal: &str) -> Vec<String> {
    let (mut parts, mut is_value) = (vec![String::new()], false);
    let mut characters = literal.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '{' | '}' if characters.next_if_eq(&character).is_some() => parts.last_mut().unwrap().push(character),
            '{' => is_value = true,
            '}' => {
                is_value = false;
                parts.push(String::new());
            }
            _ if is_value => {}
            _ => parts.last_mut().unwrap().push(character),
        }
    }
    parts
}

/// Returns `true` if `text` contains all of `parts`, in order.
fn contains_in_order(text: &str, parts: &[String]) -> bool {
    let mut rest = text;
    parts.iter().all(|part| match rest.split_once(part.as_str()) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

/// Returns `true` for source files that need no coverage: tests and their helpers, the text form, and the checker and
/// the comparison of graphs.
fn defines_no_errors(source: &Path) -> bool {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with("tests.rs")
        || name == "testing.rs"
        || name == "failing.rs"
        || source.ends_with("graph/check.rs")
        || name == "text.rs"
        || source.ends_with("ops/basis/attributes.rs")
        || source.ends_with("ops/basis/form.rs")
        || source.ends_with("graph/print.rs")
        || source.ends_with("graph/difference.rs")
}

fn sentences() -> Sentences {
    let mut sentences = Sentences::new();
    for rules in RULES {
        let path = folder("..").join(rules);
        let sources = if path.is_dir() { files(&path, ".rs") } else { vec![path] };
        for source in sources.iter().filter(|source| !defines_no_errors(source)) {
            for (line, literal) in literals(&std::fs::read_to_string(source).unwrap()) {
                // A message of the form `expected, not found` is printed on two lines.
                let parts: Vec<String> = split_at_placeholders(&literal)
                    .iter()
                    .flat_map(|part| part.split(", not "))
                    .map(String::from)
                    .collect();
                let words = parts.concat().chars().filter(|character| character.is_alphabetic()).count();
                // In the tables of ops, literals that end with a full stop are documentation.
                if !literal.contains(' ')
                    || words < 3
                    || literal.ends_with('.')
                    || UNREACHABLE_SENTENCES.contains(&literal.as_str())
                {
                    continue;
                }
                let place = format!("{}:{line}", source.strip_prefix(folder("..")).unwrap().display());
                sentences.entry(parts).or_default().push(place);
            }
        }
    }
    sentences
}

/// A sentence that occurs n times in the sources must occur in at least n tested errors. This test finds clauses of the
/// type rules that no rejected program covers. If a clause is removed, its program is no longer rejected, so another
/// test fails.
#[test]
fn every_sentence_of_a_refusal_is_read_by_a_test() {
    let mut errors: BTreeSet<String> = BTreeSet::new();
    for path in files(&folder("tests/errors"), ".txt") {
        errors.insert(std::fs::read_to_string(path).unwrap());
    }
    for path in files(&folder("tests/rejected"), ".fir") {
        errors.extend(read(&path).1.into_iter().map(|program| program.error));
    }
    let mut unread = Vec::new();
    for (parts, places) in sentences() {
        let count = errors.iter().filter(|error| contains_in_order(error, &parts)).count();
        let lines: BTreeSet<&String> = places.iter().collect();
        if count < lines.len() {
            unread.push(format!("`{}`: {count} of {}: {}", parts.join("{}"), lines.len(), places.join(", ")));
        }
    }
    let fix = "add a rejected program for each clause: to `rejected/`, or to `errors.rs` if a text cannot express it";
    let (count, list) = (unread.len(), unread.join("\n"));
    assert!(unread.is_empty(), "{count} sentences occur in no error that a test reads; {fix}\n{list}");
}
