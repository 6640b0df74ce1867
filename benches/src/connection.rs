//! The harness's connection to a worker process. Each exchange writes one line and reads one line, with a timeout.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::memory::read_status;
use crate::protocol::{Answer, Request};

/// A connection to a running worker. Dropping the connection asks the worker to quit, and kills it if it is still
/// running 200 ms later.
pub(crate) struct Connection {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Connection {
    /// Starts a worker.
    pub(crate) fn open(mut command: Command) -> Result<Connection> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
        let input = child.stdin.take().context("the worker's standard input is not piped")?;
        let output = child.stdout.take().context("the worker's standard output is not piped")?;
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Connection { child, input, answers })
    }

    /// Returns the worker's peak resident memory since it started, without the pages of its program file, in bytes.
    /// Returns `None` if the system does not report it.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        let read = |name| read_status(&self.child.id().to_string(), name);
        Some(read("VmHWM:")?.saturating_sub(read("RssFile:")?) as u64)
    }

    /// Sends a request and waits for its answer. Kills the worker if it does not answer within `timeout`.
    pub(crate) fn ask(&mut self, request: &Request, timeout: Duration) -> Result<Answer> {
        writeln!(self.input, "{}", serde_json::to_string(request)?).context("the worker has ended")?;
        self.input.flush().context("the worker has ended")?;
        match self.answers.recv_timeout(timeout) {
            Ok(line) => serde_json::from_str(&line).with_context(|| format!("invalid answer: {line}")),
            Err(RecvTimeoutError::Timeout) => {
                self.child.kill()?;
                bail!("timed out after {} s", timeout.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => bail!("the worker ended: {}", self.child.wait()?),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let quit = serde_json::to_string(&Request::Quit).expect("a request without fields is valid JSON");
        let is_sent = writeln!(self.input, "{quit}").and_then(|()| self.input.flush()).is_ok();
        for _ in 0..20 {
            if !is_sent || matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
