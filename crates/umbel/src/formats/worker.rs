//! A file of an untrusted format → Markdown, converted by a process of its own with limits.
//!
//! Invariant: whatever a converter does costs one call, and that call says why; its process ends with the call, or with this
//! process.
//!
//! The worker is this program itself, started anew: it knows by an environment variable, and by [`serve`], that it is to do
//! one job. The job comes by standard input, the answer goes to standard output, and standard input stays open as a lifeline:
//! its end is the end of the worker. The limits stop bugs and file bombs; they are no fence against code that a file smuggles in.

use super::{ConvertError, Converted, FileFormat, panicked};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, panic, process};

/// What one conversion may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the start of the process to its answer, on the wall clock.
    pub time: Duration,
    /// Private memory of the process, the file's bytes and the result included, its stack excluded. Held to on Linux only.
    pub memory_bytes: u64,
    /// The result: text, anchors and all.
    pub output_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { time: Duration::from_mins(1), memory_bytes: 2 << 30, output_bytes: 256 << 20 }
    }
}

/// A function that converts one file.
pub type Converter = fn(FileFormat, &[u8]) -> Result<Converted, ConvertError>;

/// Set in the environment of a worker, to [`PROTOCOL`].
const VARIABLE: &str = "UMBEL_WORKER";

/// What both ends have to agree on. They differ where the program was replaced on disk while it ran.
const PROTOCOL: &str = concat!("umbel ", env!("CARGO_PKG_VERSION"));

/// The first bytes of an answer: the limits hold, and what happens now is the file's doing.
const STARTED: [u8; 8] = *b"umbel>>\n";

/// The stack of a conversion. Parsers recurse as deep as their file nests: eight times what a main thread has.
const STACK_BYTES: usize = 64 << 20;

/// How much is kept of the end of what a worker says on standard error.
const TAIL_BYTES: usize = 4096;

/// How long a worker that closed its standard output may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// What a worker needs of the environment to start at all: where its libraries lie.
const INHERITED: &[&str] = if cfg!(windows) {
    &["PATH", "SYSTEMROOT"]
} else {
    &["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"]
};

/// Whether this program can be its own worker.
static SERVES: AtomicBool = AtomicBool::new(false);

/// Lets this program be its own worker: to be called first thing in `main`, before arguments are read or threads are started.
///
/// Returns at once, unless this process was started as a worker: then it does its job and exits.
///
/// ```no_run
/// umbel::formats::worker::serve();
/// ```
pub fn serve() {
    serve_with(super::convert);
}

/// [`serve`] with a converter of the program's own.
pub fn serve_with(converter: Converter) {
    let Some(protocol) = env::var_os(VARIABLE) else {
        SERVES.store(true, Ordering::Relaxed);
        return;
    };
    if protocol != PROTOCOL {
        fail(&format!("`{VARIABLE}` asks for another version than `{PROTOCOL}`"));
    }
    let Err(error) = work(converter);
    fail(&error.to_string());
}

/// Converts a file, in a process of its own if this program called [`serve`].
///
/// Blocks until the result is there, and may be called from several threads. Each call has its own process, which costs about
/// as much as starting this program, and its own `limits`: n calls at once may take n times the memory.
///
/// Where `serve` was not called this is [`super::convert`]: a panic is still an error, but `limits` do not hold, and a crash
/// takes this process along.
///
/// # Errors
/// What the converter finds. [`ConvertError::TimedOut`], [`ConvertError::OutOfMemory`] and [`ConvertError::TooLarge`]: skip the
/// file, or raise that limit. [`ConvertError::Crashed`]: skip the file. [`ConvertError::NoWorker`]: the file was not looked at.
pub fn convert(
    format: FileFormat,
    bytes: &[u8],
    limits: &Limits,
) -> Result<Converted, ConvertError> {
    if !SERVES.load(Ordering::Relaxed) {
        return super::convert(format, bytes);
    }
    let mut child = start().map_err(|error| no_worker(&error))?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        unreachable!("all three were asked for as pipes");
    };
    let job = Job {
        format,
        memory_bytes: limits.memory_bytes,
        // The caller's clock comes first; this one is for a caller that stands still.
        cpu_seconds: limits.time.as_secs().saturating_add(2),
        size_bytes: bytes.len(),
    };
    let output_bytes = limits.output_bytes;
    thread::scope(|scope| {
        // Dropped before the scope waits for its threads: they end because the worker does.
        let mut worker = Worker(child);
        let (sender, receiver) = sync_channel(1);
        let spawned = thread::Builder::new()
            // Only borrows the pipe, which so stays open. A worker that does not read to the end has its reasons.
            .spawn_scoped(scope, || drop(job.send(&stdin, bytes)))
            .and_then(|_| {
                thread::Builder::new().spawn_scoped(scope, move || {
                    // Nobody listens any more after a time-out.
                    let _ = sender.send(receive(stdout, output_bytes));
                })
            })
            .and_then(|_| thread::Builder::new().spawn_scoped(scope, || tail(stderr)));
        let said = spawned.map_err(|error| no_worker(&error))?;
        let ended = match receiver.recv_timeout(limits.time) {
            Err(RecvTimeoutError::Timeout) => {
                return Err(ConvertError::TimedOut { limit: limits.time });
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("the reader sends before it ends"),
            Ok(Answer::TooLarge) => {
                return Err(ConvertError::TooLarge { limit_bytes: output_bytes });
            }
            Ok(Answer::Whole(answer)) => {
                return postcard::from_bytes(&answer).unwrap_or_else(|error| {
                    Err(ConvertError::Crashed {
                        detail: format!("its answer does not decode: {error}"),
                    })
                });
            }
            Ok(ended @ (Answer::None | Answer::Cut)) => ended,
        };
        let status = worker.status();
        drop(worker);
        let said = said.join().unwrap_or_default();
        Err(match (status, ended) {
            (Ok(status), Answer::None) => no_worker(&died(status, &said)),
            (Ok(status), _) => cause(status, &said, limits),
            (Err(error), _) => no_worker(&error),
        })
    })
}

/// What a worker is told before the bytes of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Job {
    format: FileFormat,
    memory_bytes: u64,
    cpu_seconds: u64,
    size_bytes: usize,
}

impl Job {
    /// Length of the job in one byte, job, file.
    fn send(&self, mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
        let job = postcard::to_stdvec(self).map_err(io::Error::other)?;
        to.write_all(&[job.len() as u8])?;
        to.write_all(&job)?;
        to.write_all(bytes)
    }

    fn receive(from: &mut impl Read) -> io::Result<Job> {
        let mut length = [0];
        from.read_exact(&mut length)?;
        let mut job = vec![0; usize::from(length[0])];
        from.read_exact(&mut job)?;
        postcard::from_bytes(&job).map_err(io::Error::other)
    }
}

// The caller's side.

/// A process that is killed and reaped at the latest when this is dropped.
struct Worker(Child);

impl Worker {
    /// How it ended, once its standard output is closed.
    fn status(&mut self) -> io::Result<ExitStatus> {
        let deadline = Instant::now() + GRACE;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(io::Error::other("it closed its output and lives on"));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both only fail if it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts this program as a worker, with nothing of this process but what it needs to run.
fn start() -> io::Result<Child> {
    // The running program, even if another one lies at its path by now.
    #[cfg(target_os = "linux")]
    let program = "/proc/self/exe";
    #[cfg(not(target_os = "linux"))]
    let program = env::current_exe()?;
    let mut command = Command::new(program);
    command
        .env_clear()
        .envs(INHERITED.iter().filter_map(|name| Some((name, env::var_os(name)?))))
        .env(VARIABLE, PROTOCOL)
        // Files are converted side by side: a converter that starts threads would only get in the way of the others.
        .env("RAYON_NUM_THREADS", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        // Out of reach of the terminal: an interrupt is this process's to handle, and no fault of the file.
        command.arg0("umbel-worker").process_group(0);
    }
    command.spawn()
}

/// What came back from a worker.
enum Answer {
    /// Nothing: it did not get as far as the file.
    None,
    /// Less than it announced.
    Cut,
    /// It announced more than is allowed.
    TooLarge,
    /// A result, to be decoded.
    Whole(Vec<u8>),
}

/// Reads [`STARTED`], the length of the answer and the answer.
fn receive(mut stdout: ChildStdout, output_bytes: u64) -> Answer {
    let mut started = [0; STARTED.len()];
    if stdout.read_exact(&mut started).is_err() || started != STARTED {
        return Answer::None;
    }
    let mut length = [0; size_of::<u64>()];
    if stdout.read_exact(&mut length).is_err() {
        return Answer::Cut;
    }
    let length = u64::from_le_bytes(length);
    if length > output_bytes {
        return Answer::TooLarge;
    }
    let mut answer = Vec::new();
    match stdout.take(length).read_to_end(&mut answer) {
        Ok(read) if read as u64 == length => Answer::Whole(answer),
        _ => Answer::Cut,
    }
}

/// Reads to the end, and keeps the last [`TAIL_BYTES`].
fn tail(mut from: impl Read) -> String {
    let mut kept = VecDeque::with_capacity(2 * TAIL_BYTES);
    let mut buffer = [0; TAIL_BYTES];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        kept.extend(buffer.iter().take(read));
        kept.drain(..kept.len().saturating_sub(TAIL_BYTES));
    }
    String::from_utf8_lossy(kept.make_contiguous()).into_owned()
}

/// Why a worker died over a file.
fn cause(status: ExitStatus, said: &str, limits: &Limits) -> ConvertError {
    #[cfg(unix)]
    {
        use rustix::process::Signal;
        use std::os::unix::process::ExitStatusExt as _;
        let signal = status.signal();
        if signal == Some(Signal::XCPU.as_raw()) {
            return ConvertError::TimedOut { limit: limits.time };
        }
        // Nobody but a system that is out of memory kills a worker that has not answered yet.
        if signal == Some(Signal::KILL.as_raw()) {
            return ConvertError::OutOfMemory { limit_bytes: limits.memory_bytes };
        }
    }
    // What the standard library says before it aborts.
    if said.lines().any(|line| line.starts_with("memory allocation of ")) {
        return ConvertError::OutOfMemory { limit_bytes: limits.memory_bytes };
    }
    ConvertError::Crashed { detail: died(status, said) }
}

/// How a worker ended, and the last line that it said.
fn died(status: ExitStatus, said: &str) -> String {
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let last: String = last.trim().chars().filter(|c| !c.is_control()).take(200).collect();
    if last.is_empty() { status.to_string() } else { format!("{status}, {last}") }
}

fn no_worker(error: &dyn ToString) -> ConvertError {
    ConvertError::NoWorker { detail: error.to_string() }
}

// The worker's side.

/// Does the one job of this process, which ends with it.
///
/// # Errors
/// What kept the job from being done; there is no `Ok`.
fn work(converter: Converter) -> io::Result<Infallible> {
    let mut input = io::stdin().lock();
    let job = Job::receive(&mut input)?;
    // A panic is an answer, not a message.
    panic::set_hook(Box::new(|_| {}));
    let (sender, receiver) = sync_channel(1);
    let mut output = own_output()?;
    // Before the limits, so that they are the file's alone.
    thread::Builder::new().name("convert".to_owned()).stack_size(STACK_BYTES).spawn(move || {
        let done = receiver.recv().map_err(io::Error::other).and_then(|(bytes, output)| {
            let bytes: Vec<u8> = bytes;
            answer(converter, job.format, &bytes, output)
        });
        match done {
            Ok(()) => process::exit(0),
            Err(error) => fail(&error.to_string()),
        }
    })?;
    confine(job.memory_bytes, job.cpu_seconds)?;
    output.write_all(&STARTED)?;
    let mut bytes = vec![0; job.size_bytes];
    input.read_exact(&mut bytes)?;
    sender.send((bytes, output)).map_err(io::Error::other)?;
    // The lifeline: nothing follows the file, so this waits for the caller's end. `abort` waits for no lock.
    let _ = input.read(&mut [0]);
    process::abort();
}

/// Converts, and writes the length of the answer and the answer.
fn answer(
    converter: Converter,
    format: FileFormat,
    bytes: &[u8],
    mut output: File,
) -> io::Result<()> {
    let converted = panic::catch_unwind(|| converter(format, bytes))
        .unwrap_or_else(|payload| Err(panicked(payload.as_ref())));
    let answer = postcard::to_stdvec(&converted).map_err(io::Error::other)?;
    output.write_all(&(answer.len() as u64).to_le_bytes())?;
    output.write_all(&answer)
}

/// Ends a worker that could not do its job.
fn fail(error: &str) -> ! {
    // Nobody is left to tell if this fails too.
    let _ = writeln!(io::stderr(), "{error}");
    process::exit(3);
}

/// A way to the caller that nothing else in this process writes to: what a parser prints goes to standard error.
#[cfg(unix)]
fn own_output() -> io::Result<File> {
    use std::os::fd::AsFd as _;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(File::from(output))
}

/// A way to the caller. A parser that prints would spoil the answer, and so be reported as a crash.
#[cfg(windows)]
fn own_output() -> io::Result<File> {
    use std::os::windows::io::AsHandle as _;
    Ok(File::from(io::stdout().as_handle().try_clone_to_owned()?))
}

/// Sets the limits of this process.
#[cfg(unix)]
fn confine(memory_bytes: u64, cpu_seconds: u64) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // Where memory is short, this process goes before the one that it works for. Not every sandbox has the file.
        let _ = fs_err::write("/proc/self/oom_score_adj", "1000");
        // No crash is worth a core file, nor the time that a handler of the system takes for one.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    env::set_current_dir("/")?;
    for (resource, limit) in [
        // Unlike the address space, it counts neither the program nor what allocators reserve and never touch.
        (Resource::Data, memory_bytes.saturating_add(STACK_BYTES as u64)),
        (Resource::Cpu, cpu_seconds),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        // A file may name other files, and a converter that opens one has been fooled.
        (Resource::Nofile, 0),
    ] {
        let maximum = getrlimit(resource).maximum;
        let current = Some(maximum.map_or(limit, |maximum| limit.min(maximum)));
        setrlimit(resource, Rlimit { current, maximum })?;
    }
    Ok(())
}

/// There are no limits here but those that the caller keeps itself: time and output.
#[cfg(windows)]
fn confine(_memory_bytes: u64, _cpu_seconds: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_serve_converts_in_its_own_process() {
        let none = Limits { time: Duration::ZERO, memory_bytes: 0, output_bytes: 0 };
        let bytes = b"\0\xff no such file";
        assert_eq!(
            convert(FileFormat::Pdf, bytes, &none),
            super::super::convert(FileFormat::Pdf, bytes)
        );
    }

    #[test]
    fn only_the_end_of_what_is_said_is_kept() {
        let check = |said: &str, kept: &str| assert_eq!(tail(said.as_bytes()), kept);
        check("", "");
        check("a\nb\n", "a\nb\n");
        let long = "x".repeat(3 * TAIL_BYTES + 7);
        check(&format!("start {long} end"), &format!("{} end", "x".repeat(TAIL_BYTES - 4)));
    }

    #[test]
    fn a_job_is_read_as_it_was_sent_and_the_file_follows() {
        let job = Job {
            format: FileFormat::Xlsx,
            memory_bytes: u64::MAX,
            cpu_seconds: u64::MAX,
            size_bytes: usize::MAX,
        };
        let mut sent = Vec::new();
        job.send(&mut sent, b"file").unwrap();
        let mut rest = sent.as_slice();
        assert_eq!(Job::receive(&mut rest).unwrap(), job);
        assert_eq!(rest, b"file");
        for end in 0..sent.len() - 4 {
            assert!(Job::receive(&mut sent.get(..end).unwrap()).is_err(), "cut at {end}");
        }
    }
}
