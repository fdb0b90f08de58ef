//! Runs the command in a folder of its own.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
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
