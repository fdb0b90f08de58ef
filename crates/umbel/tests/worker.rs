//! Files that hang, crash or fill their converter → one failed call each, with the reason, and nothing left behind.
//!
//! Invariant: this program is its own worker, so its `main` is `serve` first and tests second. A file is the name of a fault.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fs_err as fs;
use libtest_mimic::{Arguments, Trial};
use std::hint::black_box;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, io, process, thread};
use umbel::formats::worker::{self, Limits};
use umbel::formats::{ConvertError, Converted, FileFormat};
use umbel_core::document::{Anchor, Place};

/// Set for a process that is not the tests, but a caller that one of them looks at.
const CALLER: &str = "UMBEL_TEST_CALLER";

const LIMITS: Limits =
    Limits { time: Duration::from_secs(20), memory_bytes: 64 << 20, output_bytes: 1 << 20 };

macro_rules! trials {
    ($($name:ident,)*) => {
        vec![$(Trial::test(stringify!($name), || {
            $name();
            Ok(())
        })),*]
    };
}

fn main() -> ExitCode {
    worker::serve_with(misbehave);
    if let Ok(file) = env::var(CALLER) {
        return call(&file);
    }
    let mut arguments = Arguments::from_args();
    // What is left of a call is told by counting, so there is one call at a time.
    arguments.test_threads = Some(1);
    let trials = trials![
        a_result_comes_back_as_it_is,
        an_error_comes_back_as_it_is,
        every_fault_costs_one_call_and_says_why,
        limits_hold_at_their_edges,
        a_worker_opens_no_file_and_sees_no_environment,
        calls_side_by_side_do_not_meet,
        a_worker_dies_with_its_caller,
        a_worker_that_does_not_start_is_not_replaced,
        a_worker_of_another_version_does_nothing,
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Another process that converts one file, and says on standard error what went wrong.
fn call(file: &str) -> ExitCode {
    #[cfg(unix)]
    if file == "no pipes" {
        use rustix::process::{Resource, Rlimit, setrlimit};
        setrlimit(Resource::Nofile, Rlimit { current: Some(3), maximum: Some(3) }).unwrap();
    }
    match worker::convert(FileFormat::Pdf, file.as_bytes(), &Limits::default()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

/// A converter in which the file's first line is what goes wrong.
fn misbehave(format: FileFormat, bytes: &[u8]) -> Result<Converted, ConvertError> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    match text.lines().next().unwrap_or_default() {
        "hang" => loop {
            black_box(0);
        },
        "sleep" => loop {
            thread::sleep(Duration::from_secs(1));
        },
        "allocate" => {
            let mut kept = Vec::new();
            loop {
                kept.push(black_box(vec![1_u8; 1 << 16]));
            }
        }
        "allocate at once" => drop(black_box(vec![1_u8; 1 << 40])),
        "panic" => panic!("page {} is missing", black_box(7)),
        "recurse" => {
            black_box(recurse(0));
        }
        "abort" => process::abort(),
        #[cfg(unix)]
        "be killed" => signal(rustix::process::Signal::KILL),
        #[cfg(unix)]
        "use up the processor" => signal(rustix::process::Signal::XCPU),
        #[cfg(unix)]
        "run no code" => signal(rustix::process::Signal::ILL),
        "exit" => process::exit(0),
        "print" => {
            let noise = "noise\n".repeat(1 << 16);
            io::stdout().write_all(noise.as_bytes()).unwrap();
            io::stderr().write_all(noise.as_bytes()).unwrap();
        }
        "look around" => {
            assert!(fs::File::open("/proc/self/stat").is_err(), "a file was opened");
            assert!(
                fs::File::create(env::temp_dir().join("umbel-worker")).is_err(),
                "a file was made"
            );
            let mut seen = vec![env::current_dir().unwrap().to_string_lossy().into_owned()];
            seen.extend(env::vars().map(|(name, _)| name));
            return Ok(Converted { text: seen.join(" "), ..Converted::default() });
        }
        "grow" => {
            return Ok(Converted { text: "x".repeat(text.len() << 10), ..Converted::default() });
        }
        "encrypted" => return Err(ConvertError::Encrypted),
        "scanned" => return Err(ConvertError::NoText { pages: 12 }),
        _ => {}
    }
    Ok(Converted {
        title: Some(format.name().to_owned()),
        anchors: vec![
            Anchor { offset: 0, place: Place::Page(1) },
            Anchor { offset: text.len(), place: Place::Element("end".to_owned()) },
        ],
        updated_at: Some(-1),
        language: Some("en".to_owned()),
        warnings: vec!["odd".to_owned()],
        text,
    })
}

#[cfg(unix)]
fn signal(signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
    thread::sleep(Duration::from_secs(1));
}

fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if depth == u64::MAX { 0 } else { recurse(depth + 1) + black_box(frame[0]) }
}

/// What a file gives, and that its call leaves nothing behind.
fn convert(file: &str, limits: &Limits) -> Result<Converted, ConvertError> {
    let before = left();
    let start = Instant::now();
    let result = worker::convert(FileFormat::Pdf, file.as_bytes(), limits);
    assert!(start.elapsed() < limits.time + Duration::from_secs(10), "{file}: no limit held");
    nothing_is_left_but(&before, file);
    result
}

/// A thread is joined a moment before it is gone.
fn nothing_is_left_but(before: &(Vec<String>, usize, usize), call: &str) {
    let start = Instant::now();
    while left() != *before {
        let now = left();
        assert!(start.elapsed() < Duration::from_secs(5), "{call}: {now:?} are left of {before:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The children, open files and threads of this process.
fn left() -> (Vec<String>, usize, usize) {
    let count = |folder: &str| fs::read_dir(folder).map_or(0, Iterator::count);
    (children(process::id()), count("/proc/self/fd"), count("/proc/self/task"))
}

/// The processes that a process started and that are not reaped.
fn children(parent: u32) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let stat = |path: PathBuf| fs::read_to_string(path.join("stat")).ok();
    processes
        .filter_map(|process| stat(process.ok()?.path()))
        .filter(|stat| {
            let behind_name = stat.rsplit(')').next().unwrap_or_default();
            behind_name.split_whitespace().nth(1) == Some(&parent.to_string())
        })
        .filter_map(|stat| Some(stat.split_whitespace().next()?.to_owned()))
        .collect()
}

fn a_result_comes_back_as_it_is() {
    for file in ["", "text", "naïve\n😀\n\u{0}"] {
        let expected = misbehave(FileFormat::Pdf, file.as_bytes());
        assert_eq!(convert(file, &LIMITS), expected);
    }
    let large = "word ".repeat(40 << 10);
    assert_eq!(convert(&large, &LIMITS).unwrap().text, large);
}

fn an_error_comes_back_as_it_is() {
    assert_eq!(convert("encrypted", &LIMITS), Err(ConvertError::Encrypted));
    assert_eq!(convert("scanned", &LIMITS), Err(ConvertError::NoText { pages: 12 }));
}

fn every_fault_costs_one_call_and_says_why() {
    let soon = Duration::from_millis(300);
    let check = |file: &str, expected: &str| {
        let limits = Limits {
            time: if matches!(file, "hang" | "sleep") { soon } else { LIMITS.time },
            ..LIMITS
        };
        let found = match convert(file, &limits) {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "{file}: wanted `{expected}`, got `{found}`");
        assert!(convert("next", &LIMITS).is_ok(), "the call after {file}");
    };
    check("hang", "took longer than 300ms");
    check("sleep", "took longer than 300ms");
    check("allocate", "takes too much memory to convert");
    check("allocate at once", "takes too much memory to convert");
    check("panic", "is damaged: the parser panicked: page 7 is missing");
    check("recurse", "stack overflow");
    check("recurse", "SIGABRT");
    check("abort", "crashes its converter: signal: 6 (SIGABRT)");
    check("run no code", "crashes its converter: signal: 4 (SIGILL)");
    check("be killed", "takes too much memory to convert");
    check("use up the processor", "took longer than 20s");
    check("exit", "crashes its converter: exit status: 0");
    check("print", "ok");
    check(&format!("grow{}", "\n".repeat(2 << 10)), "converts to more than 1048576 bytes");
}

fn limits_hold_at_their_edges() {
    let result = misbehave(FileFormat::Pdf, b"text").unwrap();
    let none = Limits { output_bytes: 0, ..LIMITS };
    assert_eq!(convert("text", &none), Err(ConvertError::TooLarge { limit_bytes: 0 }));
    let no_time = Limits { time: Duration::ZERO, ..LIMITS };
    assert_eq!(convert("text", &no_time), Err(ConvertError::TimedOut { limit: Duration::ZERO }));
    let endless = Limits { time: Duration::MAX, memory_bytes: u64::MAX, output_bytes: u64::MAX };
    assert_eq!(worker::convert(FileFormat::Pdf, b"text", &endless), Ok(result));
    let file = "x".repeat(8 << 20);
    let small = Limits { memory_bytes: 1 << 20, ..LIMITS };
    assert_eq!(convert(&file, &small), Err(ConvertError::OutOfMemory { limit_bytes: 1 << 20 }));
}

fn a_worker_opens_no_file_and_sees_no_environment() {
    let said = convert("look around", &LIMITS).unwrap().text;
    let mut words = said.split(' ');
    assert_eq!(words.next(), Some("/"));
    let mut names: Vec<&str> = words.filter(|name| !name.contains("LIBRARY_PATH")).collect();
    names.sort_unstable();
    assert_eq!(names, ["RAYON_NUM_THREADS", "UMBEL_WORKER"]);
}

fn calls_side_by_side_do_not_meet() {
    let before = left();
    let soon = Limits { time: Duration::from_millis(200), ..LIMITS };
    thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for round in 0..5 {
                    let file = format!("{thread} {round}");
                    let result = worker::convert(FileFormat::Html, file.as_bytes(), &LIMITS);
                    assert_eq!(result, misbehave(FileFormat::Html, file.as_bytes()));
                    let hung = worker::convert(FileFormat::Html, b"sleep", &soon);
                    assert_eq!(hung, Err(ConvertError::TimedOut { limit: soon.time }));
                }
            });
        }
    });
    nothing_is_left_but(&before, "eight threads");
}

fn a_worker_dies_with_its_caller() {
    let mut caller = own_program().env(CALLER, "hang").spawn().unwrap();
    let worker = wait_for(|| {
        children(caller.id()).into_iter().find(|child| {
            let words = fs::read_to_string(format!("/proc/{child}/cmdline"));
            words.is_ok_and(|words| words.starts_with("umbel-worker"))
        })
    });
    // Three pipes, one of them twice. What this process was started with is handed on, as the system does; what the caller
    // opened itself is not.
    let own = open_files("self");
    wait_for(|| {
        let files = open_files(&worker);
        (files.iter().filter(|file| !own.contains(file)).count() <= 4).then_some(())
    });
    kill(&mut caller);
    // Where nobody reaps orphans, it stays as a zombie.
    wait_for(|| {
        let stat = fs::read_to_string(format!("/proc/{worker}/stat"));
        let lives = stat.is_ok_and(|stat| !stat.contains(") Z"));
        (!lives).then_some(())
    });
}

fn a_worker_that_does_not_start_is_not_replaced() {
    let output = own_program().env(CALLER, "no pipes").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("NoWorker"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

fn a_worker_of_another_version_does_nothing() {
    let output = own_program().env("UMBEL_WORKER", "umbel 0.0.0").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("asks for another version"), "{said}");
    assert_eq!(output.status.code(), Some(3));
}

/// What a process has open; nothing where that is not told.
fn open_files(process: &str) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    files.filter_map(|file| fs::read_link(file.ok()?.path()).ok()).collect()
}

fn own_program() -> Command {
    Command::new(env::current_exe().unwrap())
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn wait_for<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "it never came");
        thread::sleep(Duration::from_millis(10));
    }
}
