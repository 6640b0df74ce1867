//! Tests the program `language_model` as users run it: in processes that train a model, resume training, and serve the
//! model.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A temporary folder for a test, which is deleted when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("funcify-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn command(words: &[&str], framework: &str, folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_language_model"));
    command.args(words).args(["--tiny", "--framework", framework, "--folder"]).arg(folder);
    command
}

fn assert_success(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the command `resume`, which checks that training in two halves, with a checkpoint in between, agrees bit for
/// bit with uninterrupted training.
#[test]
fn it_resumes_exactly() {
    for framework in ["candle", "burn"] {
        let folder = Folder::new(&format!("resume-{framework}"));
        let said = assert_success(command(&["resume", "--steps", "12"], framework, &folder.0).output().unwrap());
        assert!(said.contains("12 steps equal 6, a checkpoint, and the rest"), "{said}");
    }
}

/// Checks that training reduces and plots the loss. Also checks that serving two lines at once gives the same answers
/// as serving each line alone, and as the command `generate`.
#[test]
fn it_is_trained_and_served() {
    for framework in ["candle", "burn"] {
        let folder = Folder::new(&format!("serve-{framework}"));
        let train = ["train", "--steps", "60", "--every", "30", "--rate", "0.01"];
        let said = assert_success(command(&train, framework, &folder.0).output().unwrap());
        let losses =
            said.lines().filter_map(|line| line.split_once(" nats per held-out")?.0.rsplit(' ').next()?.parse().ok());
        let losses: Vec<f64> = losses.collect();
        // Guessing uniformly among all 256 bytes gives a loss of 5.5 nats.
        assert!(matches!(losses[..], [first, second] if second < first && second < 4.0), "{said}");
        let plot = std::fs::read_to_string(folder.0.join("losses.svg")).unwrap();
        assert!(plot.matches("<polyline").count() >= 2 && plot.contains("nats per byte"), "{plot}");

        let serve = |lines: &str| {
            let mut process = command(&["serve", "--bytes", "12"], framework, &folder.0);
            let mut process =
                process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            process.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
            let answers = assert_success(process.wait_with_output().unwrap());
            let mut answers: Vec<String> = answers.lines().map(str::to_string).collect();
            answers.sort();
            answers
        };
        let generate = |prompt: &str| {
            let generate = ["generate", "--bytes", "12", "--prompt", prompt];
            let text = assert_success(command(&generate, framework, &folder.0).output().unwrap());
            let answer = text.strip_prefix(prompt).unwrap().split('\n').next().unwrap();
            answer.as_bytes().escape_ascii().to_string()
        };
        let lines = ["A loop", "the states of"];
        let together = serve(&format!("{}\n{}\n", lines[0], lines[1]));
        for (number, line) in lines.iter().enumerate() {
            let alone = serve(&format!("{line}\n"));
            assert_eq!(alone[0].strip_prefix("1: "), together[number].strip_prefix(&format!("{}: ", number + 1)));
            // The server prepends a newline to each line.
            assert_eq!(alone[0], format!("1: {}", generate(&format!("\n{line}"))));
        }
    }
}

/// Runs every command of the serving page, with a tiny model and a short training run.
#[test]
fn the_commands_of_the_documentation_run() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/serving.md")).unwrap();
    let lines = page.lines().filter_map(|line| line.split_once("--bin language_model -- "));
    let folder = Folder::new("documentation");
    let mut ran = Vec::new();
    for (before, line) in lines {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        let words: Vec<&str> = words.iter().map(|word| word.trim_matches('"')).collect();
        // Rejoin the words of the quoted prompt into a single argument.
        let joined = words.iter().position(|word| *word == "--prompt").map(|at| words[at + 1..].join(" "));
        let mut words: Vec<&str> = words.into_iter().take_while(|word| *word != "--prompt").collect();
        words.extend(joined.iter().flat_map(|prompt| ["--prompt", prompt.as_str()]));
        if words[0] == "train" {
            words.extend(["--steps", "20"]);
        }
        let mut process = command(&words, "candle", &folder.0);
        let mut process = process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = process.stdin.take().unwrap();
        if before.starts_with("echo ") {
            stdin.write_all(b"A loop\n").unwrap();
        }
        drop(stdin);
        let said = assert_success(process.wait_with_output().unwrap());
        assert!(!said.trim().is_empty(), "{line}");
        ran.push(words[0].to_string());
    }
    assert_eq!(ran, ["train", "resume", "generate", "serve", "compare"]);
}
