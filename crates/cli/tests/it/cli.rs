//! Runs the command in a folder of its own.

use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// A folder with documents and a store, and the command in it.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    /// An empty folder.
    pub(crate) fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    /// A folder with these documents under `docs/`, indexed by words only.
    pub(crate) fn indexed(documents: &[(&str, &str)]) -> Place {
        let place = Place::new();
        for (path, text) in documents {
            place.write(&format!("docs/{path}"), text);
        }
        place.run(&["index", "docs", "--lexical"]).succeeds();
        place
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file, its folders too.
    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    /// The command, ready to run.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_umbel"));
        command.current_dir(self.path()).args(args).stdin(Stdio::null()).env_remove("UMBEL_STORE");
        command
    }

    /// Runs the command.
    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args), args.join(" "))
    }
}

/// What a command printed.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) line: String,
    pub(crate) output: Output,
}

impl Ran {
    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn of(mut command: Command, line: String) -> Ran {
        Ran { line, output: command.output().unwrap() }
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.output.stderr.clone()).unwrap()
    }

    /// It ended with this code.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Ran {
        let found = self.output.status.code();
        assert_eq!(found, Some(code), "umbel {}\n{}{}", self.line, self.stdout(), self.stderr());
        self
    }

    #[track_caller]
    pub(crate) fn succeeds(self) -> Ran {
        self.code(0)
    }

    /// It ended with this code, one `error:` line with these words, and a hint.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, words: &str) -> Ran {
        let ran = self.code(code);
        let errors = ran.stderr();
        assert!(
            errors.lines().any(|line| line.starts_with("error: ") && line.contains(words)),
            "{errors}"
        );
        assert_eq!(
            errors.lines().filter(|line| line.starts_with("error: ")).count(),
            1,
            "{errors}"
        );
        assert!(errors.lines().any(|line| line.starts_with("hint: ")), "no hint: {errors}");
        ran
    }

    /// Its warnings have these words.
    #[track_caller]
    pub(crate) fn warns(self, words: &str) -> Ran {
        let errors = self.stderr();
        assert!(
            errors.lines().any(|line| line.starts_with("warning: ") && line.contains(words)),
            "{errors}"
        );
        self
    }

    /// The last line of JSON that it printed.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let out = self.stdout();
        let line = out
            .lines()
            .last()
            .unwrap_or_else(|| panic!("umbel {} printed nothing: {}", self.line, self.stderr()));
        serde_json::from_str(line).unwrap()
    }
}

/// A running command, its lines of output, and a way to end it.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: Receiver<String>,
}

impl Running {
    pub(crate) fn start(place: &Place, args: &[&str]) -> Running {
        let mut child =
            place.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Running { child, lines }
    }

    /// Waits for the end: the code, and the lines that were not taken.
    #[cfg(unix)]
    pub(crate) fn end(mut self) -> (Option<i32>, Vec<String>) {
        let code = self.child.wait().unwrap().code();
        (code, self.lines.iter().collect())
    }

    /// The next line, awaited for a minute at the most.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(Duration::from_mins(1)).expect("a line of output")
    }

    /// The next line of JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Sends what Ctrl-C sends.
    #[cfg(unix)]
    pub(crate) fn interrupt(&self) {
        let pid = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with a store that a version wrote when its format was new, as it was checked in then.
pub(crate) fn old_store(name: &str) -> Place {
    let place = Place::new();
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/stores/{name}.zip"));
    let packed = fs_err::File::open(packed).unwrap();
    zip::ZipArchive::new(packed).unwrap().extract(place.path().join(".umbel")).unwrap();
    place
}

/// The shared folder of test data, beside the repository; says so where it is absent.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    if found.exists() {
        return Some(found);
    }
    eprintln!("skipped: `../shared/{path}` is not here");
    None
}

/// A list inside JSON.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A text inside JSON.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("no text at {pointer} in {value}"))
}

/// A whole number inside JSON.
pub(crate) fn number(value: &Value, pointer: &str) -> u64 {
    value
        .pointer(pointer)
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("no number at {pointer} in {value}"))
}
